"""`python -m benchmarks before COMMIT [ROW ...]`: another commit beside this checkout, on one machine, in turns.

A turn of a row is a process that measures (benchmarks/before_rows.py), or several at once. The other commit's turn and
this checkout's alternate. A loop of known work, the canary, runs before and after each turn. Where it takes longer than
its best, something else runs on the machine, and the turn is repeated. Both commits import the same PyTorch, and have
caches of their own, which the first turns fill before they take times.

Turns are kept in build/kept: a run that was ended goes on from there, and a run of other rows or of more turns adds to
them. A change of the code drops them; so does --anew.
"""

import argparse
import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from benchmarks import before_build
from benchmarks.before_build import BuildError, Side
from benchmarks.before_rows import ROWS, Row
from commands import ROOT, checkout, free_port
from commands.answering import Answering
from commands.budget import Budget
from commands.child import ChildError
from commands.kept import Kept, KeptError, fingerprint

NAME = "before"
MINUTES = 90.0
TURNS = 5
SLOWER, FASTER = 1.05, 0.95
_PREPARE_S, _MEASURE_S = 600.0, 240.0
# What changes times, or how they are taken.
_MODULES = ("before_rows", "models", "timing", "graphs", "recording", "distributed")
_MEASURED = ("csrc", "src", "examples", *(f"benchmarks/{name}.py" for name in _MODULES))
_Found = dict[str, float]


class RowError(RuntimeError):
    """A row cannot be measured at a commit; one sentence."""


def _work() -> None:
    hashlib.pbkdf2_hmac("sha256", b"canary", b"", 60_000)  # some 30 ms, without Python's lock


@dataclass
class Canary:
    """Known work on each core at once, whose time beside the best of all times tells whether the machine is idle."""

    work: Callable[[], object] = _work
    clock: Callable[[], float] = time.perf_counter
    most: float = 1.06  # times the best
    cores: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    best: float = float("inf")

    def slow(self) -> bool:
        """Whether it takes longer than it should."""
        start = self.clock()
        threads = [threading.Thread(target=self.work) for _ in range(self.cores)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        taken = self.clock() - start
        self.best = min(self.best, taken)
        return taken > self.most * self.best

    def learn(self, times: int = 20) -> None:
        """Find the best time."""
        for _ in range(times):
            self.slow()


_TRIES = 3  # of a turn
_WAITS, _WAIT_S = 10, 0.5  # for an idle machine, before each


def undisturbed(measure: Callable[[], _Found], canary: Canary, sleep: Callable[[float], None] = time.sleep) -> Any:
    """What `measure` gives, and whether the machine was idle before and after; the last of some tries otherwise."""
    found: _Found = {}
    for _ in range(_TRIES):
        idle = False
        for _ in range(_WAITS):
            if idle := not canary.slow():
                break
            sleep(_WAIT_S)
        found = measure()
        # The measured processes' last words, such as the end of their threads, are not another one's.
        sleep(_WAIT_S)
        if idle and not canary.slow():
            return found, True
    return found, False


def turn(row: str, side: Side, rows: Mapping[str, Row] = ROWS) -> _Found:
    """Microseconds of each measure of a row on a side. RowError if its processes fail."""
    asked = rows[row]
    # The running environment may name more backends of this project, whose packages are not on a side's path.
    environment = {**asked.environment, **side.environment(), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    environment["PYTHONDONTWRITEBYTECODE"] = ""  # installed packages have their byte code
    if asked.ranks:
        environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
        environment |= dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(asked.processes))
    core = max(os.sched_getaffinity(0)) if asked.one_core else None
    try:
        with ExitStack() as stack:
            processes = []
            for number in map(str, range(asked.processes)):
                own = {**environment, "RANK": number, "LOCAL_RANK": number} if asked.ranks else environment
                process = Answering("benchmarks.before_rows", [row], own, core, python=str(side.python))
                processes.append(stack.enter_context(process))
            _ask_all(processes, "prepare", _PREPARE_S)
            found = _ask_all(processes, "measure", _MEASURE_S)
    except ChildError as error:
        last = str(error).rstrip().splitlines()[-1].strip(" .")
        raise RowError(f"the row {row!r} cannot be measured at {side.name}: {last}") from error
    return {name: max(each[name] for each in found) for name in found[0]}


def _ask_all(processes: Sequence[Answering], question: str, seconds: float) -> list[Any]:
    for process in processes:
        process.ask(question)
    return [process.answer(seconds) for process in processes]


class Comparison:
    """Two sides, and the turns of both that are kept."""

    def __init__(
        self,
        sides: Sequence[Side],
        kept: Kept,
        canary: Canary,
        take: Callable[[str, Side], _Found] = turn,
        say: Callable[[str], None] = print,
    ) -> None:
        self.sides, self.kept, self.canary, self.take, self.say = sides, kept, canary, take, say
        self.failed: dict[str, str] = {}

    def measure(self, rows: Sequence[str], turns: int) -> None:
        """Take the missing turns: a turn of each row, before the second of any. Rows that fail are left out."""
        for number in range(turns):
            for row in rows:
                key = f"{row}, turn {number}"
                if key in self.kept.results or row in self.failed:
                    continue
                try:
                    found = self._both(row)
                except RowError as error:
                    self.failed[row] = str(error)
                    self.say(str(error))
                    continue
                self.kept.add(key, found)
                self.say(f"{key}: {self._said(found)}{'' if found['idle'] else ' (the machine was not idle)'}")

    def _both(self, row: str) -> dict[str, Any]:
        found: dict[str, Any] = {"idle": True}
        for which, side in zip(("before", "today"), self.sides, strict=True):
            found[which], idle = undisturbed(lambda: self.take(row, side), self.canary)  # noqa: B023
            found["idle"] &= idle
        return found

    def _said(self, found: dict[str, Any]) -> str:
        return ", ".join(f"{name} {found['today'][name] / found['before'][name]:.2f}" for name in found["today"])

    def turns(self, row: str) -> list[dict[str, Any]]:
        """The kept turns of a row."""
        return [found for key, found in self.kept.results.items() if key.startswith(f"{row}, turn ")]

    def idle_turns(self, row: str) -> list[dict[str, Any]]:
        """Those on an idle machine; all, where none was."""
        turns = self.turns(row)
        return [found for found in turns if found["idle"]] or turns

    def table(self, rows: Sequence[str]) -> Any:
        """Times of both sides, and the turns' ratios."""
        from benchmarks.report import Table
        from benchmarks.timing import Spread

        before, today = self.sides
        table = Table(
            f"{before.name} and {today.name} in turns, each turn a process; us",
            ["row", "measure", "turns", before.name, today.name, f"{today.name} / {before.name}", ""],
        )
        for row in rows:
            turns = self.idle_turns(row)
            for name in turns[0]["today"] if turns else ():
                pairs = [(found["before"][name], found["today"][name]) for found in turns]
                ratio = Spread.of([new / old for old, new in pairs])
                spreads = [Spread.of(times) for times in zip(*pairs, strict=True)]
                table.rows.append(
                    [row, name, len(turns), *spreads, ratio, verdict(ratio.median, ratio.low, ratio.high)]
                )
            if turns and not turns[0]["idle"]:
                table.notes.append(f"{row}: the machine was idle in none of {len(turns)} turns, which stand here.")
            elif others := len(self.turns(row)) - len(turns):
                table.notes.append(f"{row}: left out are {others} turns in which the machine was not idle.")
        table.notes += [f"{text}." for text in self.failed.values()]
        table.notes.append(
            f"slower: the ratio's median is above {SLOWER}, and every turn's is above 1; faster: below {FASTER}, and 1."
        )
        return table


def verdict(median: float, low: float, high: float) -> str:
    """Whether today is slower or faster by more than the turns differ."""
    if median > SLOWER and low > 1:
        return "slower"
    return "faster" if median < FASTER and high < 1 else ""


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks before", description=__doc__.partition("\n")[0])
    known = ", ".join(ROWS)
    parser.add_argument("commit", help="which is built in build/before, once")
    parser.add_argument("rows", nargs="*", metavar="row", help=f"some of {known}; all if none")
    parser.add_argument(
        "--turns",
        type=int,
        default=TURNS,
        metavar="N",
        help=f"of each row and commit ({TURNS})",
    )
    parser.add_argument("--anew", action="store_true", help="drop the turns that are kept")
    parser.add_argument("--results", action="store_true", help="put the table into RESULTS.md")
    args = parser.parse_args(argv)
    if unknown := [row for row in args.rows if row not in ROWS]:
        parser.error(f"unknown row {unknown[0]!r}; one of {known}")
    if args.turns < 1:
        parser.error(f"--turns is {args.turns}; at least 1 turn is taken")
    if args.results and (reason := checkout.why_not()):
        parser.error(f"--results: {reason}")
    return args


def compare(args: argparse.Namespace, budget: Budget) -> int:
    """Build, measure, print; the exit status."""
    commit = before_build.resolve(args.commit)
    rows = list(dict.fromkeys(args.rows or ROWS))
    with budget.doing(NAME, f"{commit[:8]} is built"):
        sides = (before_build.built(commit, budget.seconds(before_build.BUILD_S)), before_build.today())
    kept = Kept(f"{NAME}-{commit[:12]}", fingerprint([ROOT / name for name in _MEASURED], commit=commit))
    if args.anew:
        kept.forget([key for row in rows for key in kept.results if key.startswith(f"{row}, turn ")])
    canary = Canary()
    canary.learn()
    comparison = Comparison(sides, kept, canary, say=budget.say)
    with budget.doing(NAME, "turns"):
        comparison.measure(rows, args.turns)
    table = comparison.table(rows)
    budget.say(f"\n{table.title}\n{table.as_text()}")
    if args.results:
        return _write_results(comparison, table, rows)
    return 1 if comparison.failed else 0


def _write_results(comparison: Comparison, table: Any, rows: Sequence[str]) -> int:
    from benchmarks import report
    from benchmarks.__main__ import SECTIONS

    busy = [row for row in rows if not all(found["idle"] for found in comparison.idle_turns(row))]
    if busy:
        text = f"--results: the machine was idle in no turn of {', '.join(busy)}; take more turns, or leave them out"
        print(text, file=sys.stderr)
        return 1
    report.write_results(report.machine(), {NAME: [table]}, SECTIONS)
    return 1 if comparison.failed else 0


def main(argv: Sequence[str]) -> int:
    """The command; its exit status. What is wrong with a commit or the disk is one sentence on stderr."""
    args = arguments(argv)
    with Budget("python -m benchmarks before", MINUTES) as budget:
        try:
            return compare(args, budget)
        except (BuildError, KeptError) as error:
            print(error, file=sys.stderr)
            return 1
