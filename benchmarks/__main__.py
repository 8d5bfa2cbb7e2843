"""The command line of the benchmarks.

Each runs in a process of its own, with a limit. What is done is kept in build/kept: a run that was ended goes on from
there when it is asked for again, by parts of a benchmark; a run that came to its end begins anew.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import parts
from commands import ROOT, child
from commands.budget import OVER, Budget, end_with
from commands.kept import Kept, fingerprint

MINUTES = 90.0  # of a run
ALONE = {"soak", "trainer", "first"}  # only where they are named: two take long, one needs more packages


class Benchmark(NamedTuple):
    """The module and its function; its limit: what waits for compilers, or for many processes, takes longer."""

    function: str
    rounds: int
    minutes: float = 6.0


BENCHMARKS = {
    "dispatch": Benchmark("operators:dispatch", 25),
    "products": Benchmark("products:products", 11),
    "recording": Benchmark("recording:recording", 15),
    "lazy": Benchmark("lazy:lazy", 15, 28.0),
    "compile": Benchmark("compile:compiled", 15, 30.0),
    "graphs": Benchmark("graphs:graphs", 15),
    "first": Benchmark("first:first", 10, 60.0),
    "machines": Benchmark("machines:machines", 10, 32.0),
    "trainer": Benchmark("trainer:trainer", 10, 30.0),
    "distributed": Benchmark("distributed:distributed", 11, 12.0),
    "soak": Benchmark("soak:soak", 30, 90.0),
}


SECTIONS = (*BENCHMARKS, "before")  # of RESULTS.md, in this order


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Times of hpu beside the CPU device's.",
        epilog="`python -m benchmarks before COMMIT`: another commit beside this checkout.",
    )
    known, left_out = ", ".join(BENCHMARKS), ", ".join(sorted(ALONE))
    parser.add_argument("names", nargs="*", metavar="name", help=f"some of {known}; all but {left_out} if none")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there too")
    parser.add_argument("--results", action="store_true", help="put what was measured into RESULTS.md")
    parser.add_argument("--readme", action="store_true", help="only write README's table of speed from the results")
    parser.add_argument("--quick", action="store_true", help="few rounds: to see that it runs, not to quote")
    args = parser.parse_args(argv)
    if unknown := [name for name in args.names if name not in BENCHMARKS]:
        parser.error(f"unknown benchmark {unknown[0]!r}; one of {known}")
    if args.results and args.quick:
        parser.error("--results is not for --quick")
    if args.results:
        from benchmarks import idle_machine

        # soak measures memory and counts, so that a busy machine does not matter.
        foreign = idle_machine.foreign_seconds if args.names != ["soak"] else lambda: 0.0
        if reason := idle_machine.why_not(foreign=foreign):
            parser.error(f"--results: {reason}")
    return args


class Run:
    """The benchmarks of a run, one after another."""

    def __init__(self, args: argparse.Namespace, budget: Budget) -> None:
        self.args, self.budget = args, budget
        self.names = list(dict.fromkeys(args.names or (name for name in BENCHMARKS if name not in ALONE)))
        self.options = {"quick": args.quick}
        self.fingerprint = fingerprint(
            [ROOT / name for name in ("benchmarks", "commands", "examples", "src")], **self.options
        )
        self.found: dict[str, tuple[dict[str, str], list[Any]]] = {}
        self.failed: dict[str, child.Ended] = {}

    def kept(self, name: str) -> Kept:
        return Kept(self.file(name), self.fingerprint)

    def file(self, name: str) -> str:
        return f"benchmark-{name}{'-quick' * self.args.quick}"

    def one(self, name: str, seconds: float) -> None:
        """Measure one, unless an earlier run has, and print its tables."""
        doing = "it starts"

        def heard(line: str) -> None:
            nonlocal doing
            if line.startswith(parts.MARK):
                doing = line.removeprefix(parts.MARK)
                self.budget.progress(name, doing)
            self.budget.say(line)

        if parts.WHOLE not in self.kept(name).results:
            asked = {**self.options, "kept": self.file(name), "fingerprint": self.fingerprint}
            command = [sys.executable, "-m", "benchmarks.measure", name, json.dumps(asked)]
            with self.budget.doing(name, doing):
                ended = child.run(command, seconds=self.budget.seconds(seconds), cwd=ROOT, on_line=heard)
            if ended.code:
                self.failed[name] = ended
                self.budget.done(name, f"{ended.how}: {doing}")
                self.budget.say(f"{name}: {ended.how}: {doing}")
                return
        self.found[name] = described, tables = parts.read(self.kept(name).results[parts.WHOLE])
        self.budget.done(name)
        self.budget.say("", "; ".join(f"{key}: {value}" for key, value in described.items()))
        for table in tables:
            self.budget.say(f"\n{name}: {table.title}\n{table.as_text()}")
        if self.args.results:
            from benchmarks import report

            report.write_results(described, {name: tables}, SECTIONS)

    def all(self) -> int:
        """Measure all; the exit status."""
        self.budget.planned(self.names)
        for name in self.names:
            self.one(name, 60 * BENCHMARKS[name].minutes)
        if self.args.json:
            results = {name: [table.as_data() for table in tables] for name, (_, tables) in self.found.items()}
            machine = next((described for described, _ in self.found.values()), {})
            self.args.json.write_text(json.dumps({"machine": machine, "benchmarks": results}, indent=2) + "\n")
        if not self.failed:
            for name in self.names:
                self.kept(name).forget()
            return 0
        for name, ended in self.failed.items():
            print(f"{name}: {ended.how}; run again, it goes on with the part that was not done", file=sys.stderr)
        return OVER if any(ended.timed_out for ended in self.failed.values()) else 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run benchmarks and print their tables; the exit status."""
    given = sys.argv[1:] if argv is None else argv
    if given[:1] == ["before"]:
        from benchmarks import before

        return before.main(given[1:])
    args = arguments(given)
    if args.readme:
        from benchmarks import readme_table

        readme_table.write()
        return 0
    minutes = min(MINUTES, sum(BENCHMARKS[name].minutes for name in args.names)) if args.names else MINUTES
    with Budget("make bench", minutes) as budget:
        return Run(args, budget).all()


if __name__ == "__main__":
    end_with(main)
