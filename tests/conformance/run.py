"""Runs the conformance suite: `python -m tests.conformance.run --mode eager|lazy|compile`.

The cases are those of the installed torch's own databases (op_db, module_db, optim_db), compared with the CPU. The last
line is `N passed, N failed, N skipped`; the exit status is 0 only if nothing failed. Mode lazy records every operator
and runs it node by node, and takes samples of every operator through compiled recipes (the family recipe). Mode compile
takes samples through torch.compile, forward and backward. Mode gaudi walks Gaudi's own table of operators and dtypes,
eagerly, recorded, in recipes and through torch.compile; its part ci is a fortieth, chosen by the turn.

What is done is kept in build/conformance: a run that was ended goes on from there with the same build; one that came to
its end begins anew.
"""

import argparse
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable

from commands.budget import Budget, end_with
from commands.kept import KeptError
from tests.conformance import batches, compiled, expectations, floors, gaudi, gaudi_cells, pool, recipes, results, table
from tests.conformance.database import FAMILIES, Case, cases
from tests.conformance.planted import PLANTS
from tests.conformance.pool import Result
from tests.rotating.shards import turn

MINUTES = 60.0
MODES = ("eager", "lazy", "compile", "gaudi")
# The families whose cases share compilations, by the kind of worker that runs them.
BATCHED = {
    "recipe": (recipes.FAMILY,),
    "compile": compiled.FAMILIES,
    "gaudi_recipe": ("gaudi_recipe",),
    "gaudi_compile": ("gaudi_compile",),
}
# The families of Gaudi's table that are walked cell by cell, in the mode of their name.
WALKED = ("gaudi_eager", "gaudi_lazy")
# The part for every change: float32 of everything, and of the other dtypes one part of so many, chosen by the turn.
CI_PARTS = 5


def arguments(argv: list[str] | None) -> argparse.Namespace:
    families = [*FAMILIES, *WALKED, *(family for families in BATCHED.values() for family in families)]
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.run", description=__doc__)
    parser.add_argument("--mode", choices=MODES, required=True)
    parser.add_argument(
        "--part", choices=("ci", "all"), default="all", help="ci: few samples of a part that the turn chooses"
    )
    parser.add_argument("--family", choices=families, action="append", help="only this family (may be repeated)")
    parser.add_argument("-k", metavar="TEXT", default="", help="only cases whose name contains TEXT")
    parser.add_argument(
        "--shard", type=shard, metavar="K/N", help="only the K-th of N parts, 1 to N, by the cases' names"
    )
    parser.add_argument("--minutes", type=float, metavar="M", help="begin no case later; says how many were left")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="worker processes")
    parser.add_argument("--threads", type=int, default=1, help="threads of each worker")
    parser.add_argument(
        "--resume", action="store_true", help="record a choice of cases beside what is kept of this build"
    )
    parser.add_argument(
        "--failed", action="store_true", help="only the cases that failed in the last run; their results replace those"
    )
    parser.add_argument("--plant", choices=PLANTS, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def shard(text: str) -> tuple[int, int]:
    """K and N of "K/N"."""
    number, _, parts = text.partition("/")
    if not (number.isdigit() and parts.isdigit() and 1 <= int(number) <= int(parts)):
        raise argparse.ArgumentTypeError(f"expected K/N with K from 1 to N, such as 3/20, but got {text!r}")
    return int(number), int(parts)


def families_of(mode: str) -> dict[str, Callable[[tuple[str, ...]], list[Case]]]:
    """The families of a mode, and what gives their cases."""
    if mode == "gaudi":
        return dict.fromkeys(gaudi_cells.FAMILIES, gaudi_cells.cases)
    if mode == "compile":
        return dict.fromkeys(compiled.FAMILIES, compiled.cases)
    return dict.fromkeys(FAMILIES, cases) | ({recipes.FAMILY: recipes.cases} if mode == "lazy" else {})


def chosen(options: argparse.Namespace) -> list[str]:
    """The names of the cases to run, in the databases' order."""
    known = families_of(options.mode)
    if wrong := set(options.family or ()) - set(known):
        raise SystemExit(f"mode {options.mode} has no family {', '.join(sorted(wrong))}")
    found = [
        c for family, cases in known.items() if not options.family or family in options.family for c in cases((family,))
    ]
    if options.part == "ci" and options.mode == "gaudi":
        found = gaudi.fortieth(found)
    elif options.part == "ci":
        found = [c for c in found if c.dtype == "float32" or in_part(c, turn())]
    if options.shard:
        number, parts = options.shard
        found = [c for c in found if int(c.share() * parts) == number - 1]
    names = [str(c) for c in found if options.k in str(c)]
    if options.failed:
        last = results.read(options.mode, options.part)
        failed = {name for name, r in last.results.items() if not r["ok"]} if last else set()
        names = [n for n in names if n in failed]
    return names


def in_part(case: Case, number: int) -> bool:
    """Whether a case is of that part of CI_PARTS."""
    return int(case.share() * CI_PARTS) == number % CI_PARTS


def family(case: str) -> str:
    return case.split(":")[0]


class Progress:
    """Counts verdicts and prints failures as they come."""

    def __init__(self, total: int, reasons: dict[str, str], strict: bool):
        self.total = total
        self.reasons = reasons
        self.strict = strict
        self.families: dict[str, Counter[str]] = {}
        self.unchecked: list[str] = []
        self.done = 0

    def add(self, result: Result) -> None:
        verdict = results.verdict(result, self.reasons, self.strict)
        self.families.setdefault(family(result["case"]), Counter())[verdict] += 1
        self.done += 1
        if result["ok"] and not result["checked"] and not result.get("outside"):
            self.unchecked.append(result["case"])
        if verdict == "failed":
            print(f"FAILED {result['case']}")
            for line in results.problem(result, self.reasons):
                print(f"    {line}", flush=True)
        elif self.done % 250 == 0:
            print(f"{self.done} of {self.total}", flush=True)

    def lines(self) -> list[str]:
        """The summary; its last line is the total."""
        unchecked = [f"without a sample, counted as passed: {', '.join(self.unchecked)}"] if self.unchecked else []
        total = sum(self.families.values(), Counter())
        families = [f"{family}: {results.count_line(verdicts)}" for family, verdicts in self.families.items()]
        return [*unchecked, *families, results.count_line(total)]

    def summary(self) -> int:
        print("\n".join(self.lines()), flush=True)
        return 1 if any(verdicts["failed"] for verdicts in self.families.values()) else 0


def begun(options: argparse.Namespace, names: list[str]) -> tuple[results.Run, bool]:
    """The record that a run adds to, and whether it does: a choice of cases is recorded only beside earlier results."""
    run = results.Run(options.mode, options.part, results.fingerprint())
    if options.plant:
        return run, False
    earlier = results.read(options.mode, options.part)
    if options.failed and earlier is not None:
        earlier.again = True
        return earlier, True
    partly = bool(options.family or options.k or options.shard or options.minutes)
    if earlier is not None and earlier.marks == run.marks:
        ended = not partly and any(n not in earlier.results for n in names)
        if options.resume or ended:
            return earlier, True
    elif options.resume:
        print("nothing to resume: the last run was of another build")
    recorded = options.resume or not partly
    if recorded:
        run.start()
    return run, recorded


def main(argv: list[str] | None = None) -> int:
    options = arguments(argv)
    os.environ["OPENHPU_MODULE_LOCKS"] = "0"  # the workers run side by side on one module
    # The databases build their entries with deprecated names; the suite tests no warnings.
    warnings.simplefilter("ignore")
    with Budget(f"make conformance MODE={options.mode}", MINUTES) as budget:
        try:
            return within(budget, options)
        except (expectations.BadExpectation, KeptError) as error:
            print(error, file=sys.stderr)
            return 2


def within(budget: Budget, options: argparse.Namespace) -> int:
    """The suite; the exit status."""
    with budget.doing("conformance", "reads the databases"):
        reasons = expectations.load(
            [str(c) for mode in MODES for f, cases in families_of(mode).items() for c in cases((f,))]
        )
        names = chosen(options)
        if not names:
            print("no case fits this choice", file=sys.stderr)
            return 2
        run, recorded = begun(options, names)
        floors.read_pages()
    progress = Progress(len(names), reasons, strict=options.part == "all")
    budget.summary = progress.lines
    kept = [] if options.failed else [n for n in names if n in run.results]
    for name in kept:
        progress.add(run.results[name])
    if kept:
        print(f"goes on with {len(names) - len(kept)} of {len(names)} cases; the others were run before", flush=True)

    def report(result: Result) -> None:
        if recorded:
            run.add(result)
        progress.add(result)

    start = time.perf_counter()
    try:
        run_all(options, [n for n in names if n not in kept], report, budget)
    finally:
        wall_s = time.perf_counter() - start
        if recorded:
            run.finish(wall_s)
    if recorded and options.part == "all":
        total = sum(len(cases((f,))) for f, cases in families_of(options.mode).items())
        table.write(run, reasons, options.jobs, total)
    if progress.done < progress.total:
        print(f"the time was over: {progress.total - progress.done} of {progress.total} cases were not run")
    print(f"{wall_s:.0f} s with {options.jobs} workers")
    low = floors.below(run.results.values()) if recorded and options.part == "all" else []
    print("\n".join(low), end="\n" if low else "")
    return progress.summary() or bool(low)


def run_all(options: argparse.Namespace, names: list[str], report: Callable[[Result], None], budget: Budget) -> None:
    """Runs the cases, those that share no compilation first."""
    alone = [n for n in names if not any(family(n) in families for families in BATCHED.values())]
    end = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")

    def run_batches(made: list[list[str]], mode: str) -> None:
        jobs = min(options.jobs, len(made))
        pool.run_cases(made, options.part, jobs, options.threads, report, options.plant, mode, end, budget.progress)

    for mode in WALKED if options.mode == "gaudi" else (options.mode,):
        run_batches([[n] for n in alone if options.mode != "gaudi" or family(n) == mode], mode)
    for kind, families in BATCHED.items():
        run_batches(batches.split([n for n in names if family(n) in families]), kind)


if __name__ == "__main__":
    end_with(main)
