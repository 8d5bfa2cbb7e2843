"""What suites run in turns: all of it once in so many commits, and nothing of what must run each time."""

import itertools
import re
from fnmatch import fnmatch

import pytest

from tests import run, turns
from tests.faults import faults

TESTS = [f"tests/hpu/test_fork.py::test_{k}" for k in range(200)]


def paths(suite):
    given = [run.ROOT / path for path in run.SUITES[suite].paths() if not path.startswith("-")]
    files = itertools.chain.from_iterable([path] if path.is_file() else path.rglob("test_*.py") for path in given)
    return [str(path.relative_to(run.ROOT)) for path in files]


def names_of(suite):
    """Paths, and names of tests as pytest gives them."""
    found = paths(suite)
    for path in list(found):
        found += [f"{path}::{name}" for name in re.findall(r"^def (test_\w+)", (run.ROOT / path).read_text(), re.M)]
    return found


@pytest.mark.parametrize("suite", [suite for suite, each in turns.TURNS.items() if each.suite])
def test_another_suite_runs_the_same_files_each_time(suite):
    other = turns.TURNS[suite].suite
    assert run.SUITES[suite].files == run.SUITES[other].files
    assert other not in turns.TURNS


@pytest.mark.parametrize("suite", turns.TURNS)
def test_each_pattern_has_tests_and_a_reason(suite):
    names = names_of(suite)
    for pattern, reason in turns.TURNS[suite].files.items():
        assert any(fnmatch(name, pattern) for name in names), pattern
        assert len(reason) > 20


def test_what_is_about_a_mode_runs_each_time():
    assert not [path for path in paths("lazy") if "test_lazy_" in path and turns.in_turns("lazy", path)]


def test_what_finds_a_fault_runs_each_time():
    for fault in faults.read_all():
        for suite, arguments in fault.tests:
            assert not any(turns.in_turns(suite, argument) for argument in arguments), fault.name


def test_the_parts_are_all_tests_once():
    parts = [[test for test in TESTS if turns.chosen(f"lazy:{k}/8")(test)] for k in range(1, 9)]
    assert sorted(itertools.chain.from_iterable(parts)) == sorted(TESTS)
    assert all(parts)
    assert all(turns.chosen(f"lazy:{k}/8")("tests/hpu/test_views.py::test_x") for k in range(1, 9))


def test_the_commit_chooses():
    assert turns.option("lazy", f"{0:040x}") == ["--turn=lazy:1/8"]
    assert turns.option("lazy", f"{15:040x}") == ["--turn=lazy:8/8"]
    assert turns.option("hpu", 40 * "1") == []
    assert turns.option("compiled", f"{3:040x}") == ["--turn=compiled:2/2"]


@pytest.mark.parametrize("wrong", ["lazy:0/8", "lazy:9/8", "hpu:1/8"])
def test_a_turn_that_does_not_exist_is_refused(wrong):
    with pytest.raises(ValueError, match="no such turn"):
        turns.chosen(wrong)
