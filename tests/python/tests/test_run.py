"""What runs the tests: suites, what of them runs in turns, outcomes, and how a run ends."""

import itertools
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests import run
from tests.faults import faults
from tests.python.commands.conftest import until
from tests.python.commands.planted import processes_with
from tests.rotating import shards
from tests.suites import SUITES, Suite

# Turns.


def test_each_commit_has_one_part_and_all_have_a_commit():
    number = len(shards.SHARDS)
    assert len({shard.name for shard in shards.SHARDS}) == number
    assert [shards.of(f"{k:040x}") for k in range(number)] == list(shards.SHARDS)
    assert shards.of(f"{number + 1:040x}") == shards.SHARDS[1]
    assert len(shards.commit()) == 40


def test_random_programs_follow_from_the_commit():
    fuzzed = next(shard for shard in shards.SHARDS if shard.fuzzed)
    assert shards.arguments(fuzzed, "0000000f" + 32 * "0")[-1] == "--hypothesis-seed=15"
    plain = next(shard for shard in shards.SHARDS if not shard.fuzzed)
    assert shards.arguments(plain, 40 * "1") == plain.arguments


@pytest.mark.parametrize("name", SUITES)
def test_turns_are_all_files_once_in_a_period(name):
    suite = SUITES[name]
    assert suite.all_paths()
    for pattern in (*suite.turns, *suite.always):
        assert any(fnmatch(path, pattern) for path in suite.all_paths()), pattern
    ran = Counter(itertools.chain.from_iterable(suite.paths(f"{k:040x}") for k in range(suite.period)))
    turns = suite.in_turns()
    assert ran == {path: 1 if path in turns else suite.period for path in suite.all_paths()}
    assert suite.paths(None) == suite.all_paths()


def test_each_file_runs_in_a_suite():
    """But those of tests/planted, which fail."""
    listed = {path for suite in SUITES.values() for path in suite.all_paths()}
    found = {str(path.relative_to(run.ROOT)) for path in (run.ROOT / "tests").rglob("test_*.py")}
    assert {path for path in found - listed if not path.startswith("tests/planted/")} == set()


def test_what_finds_a_fault_runs_each_time():
    for fault in faults.read_all():
        for suite, arguments in fault.tests:
            turns = SUITES[suite].in_turns()
            assert not [argument for argument in arguments if argument.partition("::")[0] in turns], fault.name


# A suite.


class Heard:
    """In a budget's place: what it is told."""

    def __init__(self):
        self.said = []
        self.tests = []
        self.finished = {}

    def seconds(self, most=60.0):
        return most

    def say(self, *lines):
        self.said += lines

    def doing(self, suite, test):
        return open(os.devnull)

    def progress(self, suite, test):
        self.tests.append(test)

    def done(self, name, how):
        self.finished[name] = how


@pytest.fixture
def run_file(monkeypatch):
    """Run a suite of one test file; what came of it, and what was told."""
    folder = run.ROOT / "build" / "tests" / f"own{os.getpid()}"
    folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(run, "FOLDER", folder)

    def run_it(code, *arguments):
        (folder / "test_it.py").write_text(code)
        ran, heard = run.Ran(), Heard()
        options = ["-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={folder}", *arguments]
        run.run_suite("mine", Suite(()), [str(folder / "test_it.py"), *options], heard, ran)
        return {test.rpartition("::")[2]: outcome for test, outcome in ran.outcomes.items()}, heard

    yield run_it
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


OUTCOMES = """
import pytest
@pytest.fixture
def bad():
    assert 0, "the fixture"
@pytest.fixture
def late():
    yield
    assert 0, "the teardown"
def test_good(): pass
def test_bad(): assert 0, "the test"
def test_error(bad): pass
def test_late(late): pass
@pytest.mark.skip
def test_skip(): pass
@pytest.mark.xfail(strict=True)
def test_expected(): assert 0
@pytest.mark.xfail(strict=True)
def test_unexpected(): pass
@pytest.mark.parametrize("x", ["a b", "::"])
def test_names(x): pass
"""


def test_outcomes_are_those_of_pytest(run_file):
    outcomes, heard = run_file(OUTCOMES)
    assert outcomes == {
        "test_good": "passed", "test_bad": "failed", "test_error": "failed", "test_late": "failed",
        "test_skip": "skipped", "test_expected": "skipped", "test_unexpected": "failed", "test_names[a b]": "passed",
        "]": "passed",
    }  # fmt: skip
    assert heard.finished == {"mine": "3 passed, 4 failed, 2 skipped"}
    assert sum(line.startswith("mine: FAILED") for line in heard.said) == 4
    told = "\n".join(heard.said)
    assert "the test" in told and "the fixture" in told and "the teardown" in told


@pytest.mark.parametrize("code", ["import no_such_module", "def test_it(:"])
def test_a_file_that_cannot_be_read_is_a_failure(run_file, code):
    outcomes, heard = run_file(code)
    assert "failed" in outcomes.values() and "passed" not in outcomes.values()
    assert any("test_it.py" in line for line in heard.said)


def test_a_test_that_hangs_or_ends_its_process_is_named_and_the_others_run(run_file):
    """What hangs in C, too, with a child that ignores SIGTERM: no process of it is left."""
    code = """
import ctypes, os, subprocess, sys
def test_a(): pass
def test_b(): os._exit(0)
def test_c(): os.abort()
def test_d():
    child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(999)"
    assert subprocess.Popen([sys.executable, "-c", child, "left-MARK"], stdout=subprocess.PIPE).stdout.readline()
    ctypes.PyDLL(None).sleep(999)
def test_e(): pass
""".replace("MARK", str(os.getpid()))
    outcomes, heard = run_file(code, "-o", "faulthandler_timeout=4", "-o", "faulthandler_exit_on_timeout=true")
    assert outcomes == {
        "test_a": "passed",
        "test_b": "failed",
        "test_c": "failed",
        "test_d": "failed",
        "test_e": "passed",
    }
    told = "\n".join(heard.said)
    assert "crashed while running" in told and "Timeout (0:00:04)!" in told and "in test_d\n" in told
    assert not processes_with(f"left-{os.getpid()}")


def read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


# The command.


@pytest.fixture
def command(tmp_path):
    """Starts `python -m tests.run` on a test that hangs."""
    started = []
    said = tmp_path / "said"

    def start(**environment):
        clean = {name: value for name, value in os.environ.items() if name != "BUDGET" and "XDIST" not in name}
        mark = f"{os.getpid()}-{tmp_path.name}"
        with said.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.run", "--only", "planted"], cwd=run.ROOT, stdout=file, stderr=file,
                env={**clean, "COMMANDS_BUILD": str(tmp_path), "PLANTED": mark, **environment},
            )  # fmt: skip
        started.append(process)
        return process, said, mark

    yield start
    for process in started:
        process.kill()
        process.wait(10)


def processes_of(mark):
    return [path.parent.name for path in Path("/proc").glob("[0-9]*/environ")
            if f"PLANTED={mark}".encode() in read(path).split(b"\0")]  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_it_and_its_tests(command, number):
    process, said, mark = command()
    assert until(lambda: (Path(said.parent) / "hangs").exists(), 60), said.read_text()
    begin = time.monotonic()
    process.send_signal(number)
    assert process.wait(20) == (128 + number if number != signal.SIGKILL else -number)
    assert time.monotonic() - begin < 10
    assert until(lambda: not processes_of(mark), 10), processes_of(mark)
    if number != signal.SIGKILL:
        assert re.search(r"not done: planted\n  by then: [01] passed, 0 failed, 0 skipped\n", said.read_text())


def test_the_end_of_the_budget(command):
    process, said, mark = command(BUDGET="0.1")
    assert process.wait(40) == 124
    assert "python -m tests.run: its budget of 0.1 min is used up" in said.read_text()
    assert until(lambda: not processes_of(mark), 10), processes_of(mark)
