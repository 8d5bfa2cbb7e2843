"""The command line of the benchmarks.

Each runs in a process of its own, with a limit. What is done is kept in build/kept: a run that was ended goes on from
there when it is asked for again, by parts of a benchmark; a run that came to its end begins anew.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import parts
from commands import ROOT, child
from commands.budget import OVER, Budget, end_with
from commands.kept import Kept, fingerprint

# Minutes of a run, and of one benchmark: those that wait for compilers, or for many processes, take longer.
MINUTES, EACH_MINUTES = 90.0, 6.0
LONG_MINUTES = {
    "lazy": 28.0,
    "compile": 30.0,
    "machines": 32.0,
    "distributed": 12.0,
    "soak": 90.0,
}
ALONE = {"soak"}  # only where it is named; it measures memory and counts, so that a busy machine does not matter

# Name to (the module and its function, rounds).
BENCHMARKS: dict[str, tuple[str, int]] = {
    "dispatch": ("operators:dispatch", 25),
    "products": ("products:products", 11),
    "recording": ("recording:recording", 15),
    "lazy": ("lazy:lazy", 15),
    "compile": ("compile:compiled", 15),
    "graphs": ("graphs:graphs", 15),
    "machines": ("machines:machines", 10),
    "distributed": ("distributed:distributed", 11),
    "soak": ("soak:soak", 30),
}


def minutes_of(name: str) -> float:
    """The limit of a benchmark, in minutes."""
    return LONG_MINUTES.get(name, EACH_MINUTES)


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Times of hpu beside the CPU device's.")
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"some of {', '.join(BENCHMARKS)}; all but soak if none"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there too")
    parser.add_argument("--results", action="store_true", help="put what was measured into RESULTS.md")
    parser.add_argument("--readme", action="store_true", help="only write README's table of speed from the results")
    parser.add_argument("--quick", action="store_true", help="few rounds: to see that it runs, not to quote")
    args = parser.parse_args(argv)
    unknown = [name for name in args.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}; one of {', '.join(BENCHMARKS)}")
    if args.results and args.quick:
        parser.error("--results is not for --quick")
    if args.results:
        from benchmarks import quotable

        if reason := quotable.why_not(foreign=quotable.foreign_seconds if set(args.names) != ALONE else lambda: 0.0):
            parser.error(f"--results: {reason}")
    return args


class Run:
    """The benchmarks of a run, one after another."""

    def __init__(self, args: argparse.Namespace, budget: Budget) -> None:
        self.args, self.budget = args, budget
        self.names = list(dict.fromkeys(args.names or (name for name in BENCHMARKS if name not in ALONE)))
        self.options = {"quick": args.quick}
        code = [ROOT / name for name in ("benchmarks", "commands", "examples", "src")]
        self.fingerprint = fingerprint([path for path in code if path.exists()], **self.options)
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

            report.write_results(described, {name: tables}, BENCHMARKS)

    def all(self) -> int:
        """Measure all; the exit status."""
        self.budget.planned(self.names)
        for name in self.names:
            self.one(name, 60 * minutes_of(name))
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
    args = arguments(argv)
    if args.readme:
        from benchmarks import quoted

        quoted.write()
        return 0
    minutes = min(MINUTES, sum(minutes_of(name) for name in args.names)) if args.names else MINUTES
    with Budget("make bench", minutes) as budget:
        return Run(args, budget).all()


if __name__ == "__main__":
    end_with(main)
