"""One suite, followed test by test: what hangs or crashes costs one test, and a new process goes on with the next."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from commands import BUILD, child
from commands.budget import Budget

ROOT = Path(__file__).resolve().parents[1]
FOLDER = BUILD / "tests"
# pytest's: all passed, some failed, none collected.
_USUAL = (0, 1, 5)
_MARGIN_S = 2.0  # for the stacks of a test that hangs
_QUIET_S = 600.0  # without a test: imports and collection
_END_S = 60.0  # after the last test: what runs at the end of a process
_MOST = 20  # processes of a suite


@dataclass
class Ran:
    """Numbers of tests by outcome, the seconds that each took, and what failed, with its text."""

    counts: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def add(self, test: str, outcome: str, seconds: float = 0.0, text: str = "") -> None:
        self.counts[outcome] += 1
        self.seconds[test] = seconds
        if outcome == "failed":
            self.failures[test] = text


@dataclass
class _Process:
    """What a process of the suite told by now."""

    events: Path
    at: int = 0  # how far `events` was read
    test: str = ""  # which runs
    since: float = field(default_factory=time.monotonic)  # of the test, or of the last event
    limit: float = 0.0
    finished: bool = False


def run_suite(
    name: str, files: Sequence[str], environment: Mapping[str, str], arguments: Sequence[str], budget: Budget, ran: Ran
) -> str:
    """Run a suite of pytest's, and add to `ran` as it goes; what its processes printed.

    `budget` is told of each test. A failure beyond the tests' own, as of a process that ends otherwise than pytest
    does, counts as a failed test of the suite's name.
    """
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    done: set[str] = set()
    printed = ""
    command = [sys.executable, "-X", "faulthandler", "-m", "pytest", *files, "-q", "-p", "tests.told", *arguments]
    for number in range(_MOST):
        log = folder / f"log{number or ''}"
        (folder / "done").write_text("".join(f"{test}\n" for test in done))
        again = _run_process(name, command, {**environment, "TESTS_TOLD": str(folder)}, log, budget, ran, done)
        printed += log.read_text(errors="replace")
        if not again or "-x" in arguments:
            break
    else:
        ran.add(name, "failed", text=f"after {_MOST} processes that a test ended, the rest was not run")
    return printed


def _run_process(
    name: str, command: Sequence[str], environment: Mapping[str, str], log: Path, budget: Budget, ran: Ran,
    done: set[str],
) -> bool:  # fmt: skip
    """Run the tests that are not done; whether there may be more, since a test ended the process."""
    process = _Process(log.parent / "events")
    process.at = process.events.stat().st_size if process.events.exists() else 0
    budget.progress(name, "begins")
    why = ""
    with child.start(command, seconds=budget.seconds(), env=environment, cwd=ROOT, log=log) as running:
        while (ended := running.poll(0.2)) is None:
            _follow(name, process, budget, ran, done)
            patience = process.limit + _MARGIN_S if process.test else _END_S if process.finished else _QUIET_S
            if time.monotonic() - process.since > patience:
                why = f"not finished after {process.limit:g} s" if process.test else f"no test for {patience:g} s"
                ended = running.stop()
                break
    _follow(name, process, budget, ran, done)
    if child.ending():
        return False  # it was not the suite's fault
    how = why or f"its process ended: {ended.how}"
    said = [f"{name}: {process.test or 'pytest'}: {how}"]
    said += [f"  killed: {each}" for each in ended.killed]
    if process.test:
        stack = (log.parent / "stack").read_text(errors="replace")
        text = "\n".join([*said, stack or ended.tail])
        ran.add(process.test, "failed", time.monotonic() - process.since, text)
        done.add(process.test)
        budget.say(text)
        return True
    if why or ended.code not in _USUAL:
        text = "\n".join([*said, ended.tail])
        ran.add(name, "failed", text=text)
        budget.say(text)
    return False


def _follow(name: str, process: _Process, budget: Budget, ran: Ran, done: set[str]) -> None:
    """Read what the process told since the last time."""
    if not process.events.exists():
        return
    with process.events.open("rb") as file:
        file.seek(process.at)
        told = file.read()
    told = told[: told.rfind(b"\n") + 1]
    process.at += len(told)
    for line in told.splitlines():
        event = json.loads(line)
        what, test, at = event["what"], event.get("test", ""), event["at"]
        if what == "begin":
            process.test, process.limit = test, event["limit"]
            budget.progress(name, test)
        elif what == "end":
            ran.add(test, event["outcome"], at - process.since, event["text"])
            done.add(test)
            process.test = ""
        elif what == "unread":
            ran.add(test, "failed", text=event["text"])
        elif what == "finished":
            process.finished = True
            budget.progress(name, "ends")
        process.since = at
        if (what == "end" and event["outcome"] == "failed") or what == "unread":
            budget.say(f"{name}: FAILED {test}")
