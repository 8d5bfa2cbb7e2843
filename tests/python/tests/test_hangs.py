"""What hangs in a test ends with the test's time and is named; the next test runs; no process is left.

Through the real command, with the hangs of tests/planted.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.python.commands.conftest import until
from tests.run import ROOT

SECONDS = 3.0  # of a test
HANGS = (
    "a_child_that_ignores_sigterm", "a_child_that_closes_its_output", "a_grandchild_that_holds_the_pipe",
    "a_compile_process_that_never_answers",
)  # fmt: skip
IGNORES, COMPILES = HANGS[0], HANGS[-1]


class Command:
    """The command, started, and what has its environment."""

    def __init__(self, folder, *arguments, **environment):
        self.folder = folder
        self.mark = f"{os.getpid()}-{folder.name}"
        self.said = folder / "said"
        variables = {"COMMANDS_BUILD": str(folder), "TESTS_SECONDS": str(SECONDS), "PLANTED": self.mark, **environment}
        clean = {name: value for name, value in os.environ.items() if name != "BUDGET"}
        with self.said.open("a") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.run", "--only", "planted", *arguments],
                cwd=ROOT, env=clean | variables, stdout=said, stderr=said,
            )  # fmt: skip

    def processes(self):
        """Command lines of those that live and have its environment, of whatever session."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if f"PLANTED={self.mark}".encode() in (path / "environ").read_bytes().split(b"\0"):
                    found.append((path / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return found

    def until_it_runs(self, test):
        """Wait until a test has begun, and its child."""
        assert until(lambda: any("SIG_IGN" in line for line in self.processes()), 60), self.said.read_text()
        events = (self.folder / "tests" / "planted" / "events").read_text().splitlines()
        assert test in json.loads(events[-1])["test"]


@pytest.fixture
def command(tmp_path):
    started = []

    def start(*arguments, **environment):
        started.append(Command(tmp_path, *arguments, **environment))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.wait(10)


def test_each_hang_is_named_and_the_next_test_runs(command):
    started = command()
    assert started.process.wait(110) == 1
    said = started.said.read_text()
    assert said.splitlines()[-1] == "2 passed, 6 failed, 1 skipped"
    for name in HANGS:
        limit = SECONDS if name != COMPILES else 2 * SECONDS
        assert f"planted: tests/planted/test_hangs.py::test_{name}: not finished after {limit:g} s\n" in said
        assert f"FAILED planted: tests/planted/test_hangs.py::test_{name}\n" in said
        stack = said[said.index(f"::test_{name}: not finished") :]
        assert f"in test_{name}\n" in stack[: stack.index(" begins") if " begins" in stack else None]
        (seconds,) = re.findall(rf"([0-9.]+) s  planted  .*::test_{name}\n", said)
        assert limit <= float(seconds) <= limit + 5
    assert "planted: tests/planted/test_hangs.py::test_a_crash: its process ended: SIGSEGV\n" in said
    assert "planted: FAILED tests/planted/test_hangs.py::test_a_failure\n" in said
    killed = said[said.index(f"::test_{HANGS[2]}: not finished") :]
    assert re.search(r"killed: \d+ sleep 1000\n", killed)
    assert until(lambda: not started.processes(), 5), started.processes()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_a_summary(command, number):
    started = command("-k", f"before or {IGNORES}", TESTS_SECONDS="100")
    started.until_it_runs(IGNORES)
    begin = time.monotonic()
    started.process.send_signal(number)
    assert started.process.wait(20) == 128 + number
    assert time.monotonic() - begin < 5
    said = started.said.read_text()
    assert f"ran then: planted: tests/planted/test_hangs.py::test_{IGNORES}, for " in said
    assert "done: nothing\n  not done: planted\n  by then: 1 passed, 0 failed, 0 skipped\n" in said
    assert not started.processes()


def test_the_end_of_the_budget(command):
    started = command("-k", f"before or {IGNORES}", TESTS_SECONDS="100", BUDGET="0.06")
    begin = time.monotonic()
    assert started.process.wait(30) == 124
    assert time.monotonic() - begin < 0.06 * 60 + 5
    said = started.said.read_text()
    assert "python -m tests.run: its budget of 0.06 min is used up" in said
    assert "not done: planted\n" in said
    assert not started.processes()


def test_its_end_by_sigkill_leaves_results_and_no_process(command):
    started = command("-k", f"before or {IGNORES}", TESTS_SECONDS="100")
    started.until_it_runs(IGNORES)
    started.process.kill()
    started.process.wait(10)
    assert until(lambda: not started.processes(), 5), started.processes()
    events = (started.folder / "tests" / "planted" / "events").read_text().splitlines()
    ended = [event for event in map(json.loads, events) if event["what"] == "end"]
    assert [(event["test"], event["outcome"]) for event in ended] == [
        ("tests/planted/test_hangs.py::test_before", "passed")
    ]


def test_twice_at_once(command):
    first = command("-k", f"before or {IGNORES}", TESTS_SECONDS="100")
    first.until_it_runs(IGNORES)
    events = (first.folder / "tests" / "planted" / "events").read_text()
    second = command("-k", "before")
    assert second.process.wait(30) == 2
    assert "python -m tests.run runs in this checkout already, as process" in second.said.read_text()
    assert (first.folder / "tests" / "planted" / "events").read_text() == events


@pytest.mark.parametrize("given", ["0", "-3", "soon"])
def test_a_budget_that_is_none(command, given):
    started = command(BUDGET=given)
    assert started.process.wait(30) == 2
    assert f"BUDGET={given} is not a number of minutes above 0" in started.said.read_text()


def test_without_the_runner_a_hang_ends_pytest():
    """`python -m pytest` ends, too, with the stack of the test that hangs."""
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/planted", "-k", "closes_its_output"], cwd=ROOT, timeout=60,
        env={**os.environ, "TESTS_SECONDS": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == 1
    assert "Timeout (0:00:01)!" in ended.stderr and "in test_a_child_that_closes_its_output" in ended.stderr
