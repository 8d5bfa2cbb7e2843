"""What runs the tests: suites, what of them runs in turns, and outcomes."""

import itertools
import os
from collections import Counter
from fnmatch import fnmatch
from unittest import mock

import pytest

from tests import run
from tests.faults import faults
from tests.python.commands.conftest import processes_with
from tests.rotating import shards
from tests.suites import SUITES, Suite

# Turns.


def test_each_turn_has_one_part_and_all_have_a_turn():
    number = len(shards.SHARDS)
    assert len({shard.name for shard in shards.SHARDS}) == number
    assert [shards.of(k) for k in range(number)] == list(shards.SHARDS)
    assert shards.of(number + 1) == shards.SHARDS[1]
    assert shards.turn() > 0


def test_random_programs_follow_from_the_turn():
    fuzzed = next(shard for shard in shards.SHARDS if shard.fuzzed)
    assert shards.arguments(fuzzed, 15)[-1] == "--hypothesis-seed=15"
    plain = next(shard for shard in shards.SHARDS if not shard.fuzzed)
    assert shards.arguments(plain, 1) == plain.arguments


@pytest.mark.parametrize("name", SUITES)
def test_turns_are_all_files_once_in_a_period(name):
    suite = SUITES[name]
    assert suite.all_paths()
    for pattern in (*suite.turns, *suite.always):
        assert any(fnmatch(path, pattern) for path in suite.all_paths()), pattern
    ran = Counter(itertools.chain.from_iterable(suite.paths(k) for k in range(suite.period)))
    turns = suite.in_turns()
    assert ran == {path: 1 if path in turns else suite.period for path in suite.all_paths()}
    assert suite.paths(None) == suite.all_paths()


def test_each_file_runs_in_a_suite():
    listed = {path for suite in SUITES.values() for path in suite.all_paths()}
    found = {str(path.relative_to(run.ROOT)) for path in (run.ROOT / "tests").rglob("test_*.py")}
    assert found == listed


def test_what_finds_a_fault_runs_each_time():
    for fault in faults.read_all():
        for suite, arguments in fault.tests:
            turns = SUITES[suite].in_turns()
            assert not [argument for argument in arguments if argument.partition("::")[0] in turns], fault.name


# A suite.


@pytest.fixture
def run_file(monkeypatch):
    """Run a suite of one test file; what came of it, and what was told."""
    folder = run.ROOT / "build" / "tests" / f"own{os.getpid()}"
    folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(run, "FOLDER", folder)

    def run_it(code, *arguments):
        (folder / "test_it.py").write_text(code)
        ran = run.Ran()
        budget = mock.MagicMock(seconds=lambda: 60.0)
        options = ["-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={folder}", *arguments]
        run.run_suite("mine", Suite(()), [str(folder / "test_it.py"), *options], budget, ran)
        said = [line for call in budget.say.call_args_list for line in call.args]
        budget.done.assert_called_once_with("mine", run.counted(Counter(ran.outcomes.values())))
        return {test.rpartition("::")[2]: outcome for test, outcome in ran.outcomes.items()}, said

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
    outcomes, said = run_file(OUTCOMES)
    assert outcomes == {
        "test_good": "passed",
        "test_bad": "failed",
        "test_error": "failed",
        "test_late": "failed",
        "test_skip": "skipped",
        "test_expected": "skipped",
        "test_unexpected": "failed",
        "test_names[a b]": "passed",
        "]": "passed",
    }
    assert run.counted(Counter(outcomes.values())) == "3 passed, 4 failed, 2 skipped"
    assert sum(line.startswith("mine: FAILED") for line in said) == 4
    told = "\n".join(said)
    assert "the test" in told
    assert "the fixture" in told
    assert "the teardown" in told


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
    outcomes, said = run_file(code, "-o", "faulthandler_timeout=4", "-o", "faulthandler_exit_on_timeout=true")
    assert outcomes == {
        "test_a": "passed",
        "test_b": "failed",
        "test_c": "failed",
        "test_d": "failed",
        "test_e": "passed",
    }
    told = "\n".join(said)
    assert "crashed while running" in told
    assert "Timeout (0:00:04)!" in told
    assert "in test_d\n" in told
    assert not processes_with(f"left-{os.getpid()}")


def test_a_hang_ends_pytest_without_the_runner_too(pytestconfig):
    """`python -m pytest` prints the stacks of all threads and ends, also where the test hangs in C++."""
    assert pytestconfig.getini("faulthandler_exit_on_timeout") is True
    assert float(pytestconfig.getini("faulthandler_timeout")) >= 60
