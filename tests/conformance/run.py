"""Runs the conformance suite: `python -m tests.conformance.run --mode eager|lazy`.

The cases are those of the installed torch's own databases (op_db, module_db, optim_db), compared with the CPU. The last
line is `N passed, N failed, N skipped`; the exit status is 0 only if nothing failed. Mode lazy records every operator
and runs it node by node, and takes samples of every operator through compiled recipes (the family recipe).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections import Counter

from tests.conformance import expectations, pool, recipes, results
from tests.conformance.pool import Result

MODES = ("eager", "lazy", "compile")
AVAILABLE = ("eager", "lazy")
# The part for every change: float32 of everything, and this share of the other dtypes, chosen by the case's name.
CI_SHARE = 0.4


def arguments(argv: list[str] | None) -> argparse.Namespace:
    from tests.conformance.database import FAMILIES

    parser = argparse.ArgumentParser(prog="python -m tests.conformance.run", description=__doc__)
    parser.add_argument("--mode", choices=MODES, required=True)
    parser.add_argument("--part", choices=("ci", "all"), default="all", help="ci: a fixed part with few samples")
    parser.add_argument(
        "--family", choices=(*FAMILIES, recipes.FAMILY), action="append", help="only this family (may be repeated)"
    )
    parser.add_argument("-k", metavar="TEXT", default="", help="only cases whose name contains TEXT")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="worker processes")
    parser.add_argument("--threads", type=int, default=1, help="threads of each worker")
    parser.add_argument("--resume", action="store_true", help="keep what an interrupted run of this build found")
    parser.add_argument("--failed", action="store_true", help="only the cases that failed in the last run")
    parser.add_argument("--plant", choices=("wrong", "crash"), help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def chosen(options: argparse.Namespace) -> list[str]:
    """The names of the cases to run, in the databases' order."""
    from tests.conformance.database import FAMILIES, cases

    families = tuple(f for f in FAMILIES if not options.family or f in options.family)
    if options.mode != "lazy" and options.family and recipes.FAMILY in options.family:
        raise SystemExit("the family recipe belongs to --mode lazy")
    found = cases(families)
    if options.mode == "lazy" and (not options.family or recipes.FAMILY in options.family):
        found += recipes.cases()
    if options.part == "ci":
        found = [c for c in found if c.dtype == "float32" or c.share() < CI_SHARE]
    names = [str(c) for c in found if options.k in str(c)]
    if options.failed:
        last = results.read(options.mode, options.part)
        failed = {name for name, r in last.results.items() if not r["ok"]} if last else set()
        names = [n for n in names if n in failed]
    return names


class Progress:
    """Counts verdicts and prints failures as they come."""

    def __init__(self, total: int, reasons: dict[str, str], strict: bool):
        self.total, self.reasons, self.strict = total, reasons, strict
        self.families: dict[str, Counter[str]] = {}
        self.unchecked: list[str] = []
        self.done = 0

    def add(self, result: Result) -> None:
        verdict = results.verdict(result, self.reasons, self.strict)
        self.families.setdefault(result["case"].split(":")[0], Counter())[verdict] += 1
        self.done += 1
        if result["ok"] and not result["checked"] and not result.get("outside"):
            self.unchecked.append(result["case"])
        if verdict == "failed":
            print(f"FAILED {result['case']}")
            for line in results.problem(result, self.reasons):
                print(f"    {line}", flush=True)
        elif self.done % 250 == 0:
            print(f"{self.done} of {self.total}", flush=True)

    def summary(self) -> int:
        if self.unchecked:
            print(f"without a sample, counted as passed: {', '.join(self.unchecked)}")
        total: Counter[str] = Counter()
        for family, verdicts in self.families.items():
            print(f"{family}: {results.count_line(verdicts)}")
            total += verdicts
        print(results.count_line(total), flush=True)
        return 1 if total["failed"] else 0


def main(argv: list[str] | None = None) -> int:
    options = arguments(argv)
    if options.mode not in AVAILABLE:
        print(f"mode {options.mode} does not exist yet: available: {', '.join(AVAILABLE)}", file=sys.stderr)
        return 2
    os.environ["OPENHPU_MODULE_LOCKS"] = "0"  # the workers run side by side on one module
    # The databases build their entries with deprecated names; the suite tests no warnings.
    warnings.simplefilter("ignore")
    from tests.conformance.database import cases

    try:
        reasons = expectations.load([str(c) for c in [*cases(), *recipes.cases()]])
    except expectations.BadExpectation as e:
        print(e, file=sys.stderr)
        return 2
    names = chosen(options)
    if not names:
        print("no case fits this choice", file=sys.stderr)
        return 2
    whole = not (options.family or options.k or options.failed or options.plant)
    run = results.Run(options.mode, options.part, results.fingerprint())
    if options.resume:
        earlier = results.read(options.mode, options.part)
        if earlier is not None and earlier.marks == run.marks:
            run = earlier
        else:
            print("nothing to resume: the last run was of another build")
    progress = Progress(len(names), reasons, strict=options.part == "all")
    kept = [n for n in names if n in run.results]
    for name in kept:
        progress.add(run.results[name])
    if whole and not kept:
        run.start()

    def report(result: Result) -> None:
        if whole:
            run.add(result)
        progress.add(result)

    start = time.perf_counter()
    left = [n for n in names if n not in run.results]
    compiled = [n for n in left if n.startswith(recipes.FAMILY + ":")]
    others = [n for n in left if not n.startswith(recipes.FAMILY + ":")]
    pool.run_cases(others, options.part, options.jobs, options.threads, report, options.plant, mode=options.mode)
    recipes.run_cases(compiled, options.part, options.threads, report)
    wall_s = time.perf_counter() - start
    if whole:
        run.finish(wall_s)
        if options.part == "all":
            from tests.conformance import table

            table.write(run, reasons, options.jobs)
    print(f"{wall_s:.0f} s with {options.jobs} workers")
    return progress.summary()


if __name__ == "__main__":
    sys.exit(main())
