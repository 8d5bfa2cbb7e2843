"""`make versions`, without building anything: what it makes of outputs, and what it does again."""

import pytest

from release import environments, versions
from release.environments import StepError, Version

VERSION = Version("9.9.0", "3.99")


def test_the_totals_of_a_suite_and_of_the_cpp_tests():
    said = (
        "FAILED tests/hpu/test_views.py::test_a - assert 1\nERROR tests/hpu/test_b.py\n3 passed, 2 failed, 1 skipped\n"
    )
    assert versions.outcome("hpu", said, 1) == {
        "passed": 3, "failed": 2, "skipped": 1, "names": ["tests/hpu/test_b.py", "tests/hpu/test_views.py::test_a"],
    }  # fmt: skip
    plain, sanitized = "100% tests passed, 0 tests failed out of 40\n", "98% tests passed, 1 tests failed out of 40\n"
    assert versions.outcome("C++ tests", plain + sanitized, 1) == {
        "passed": 79, "failed": 1, "skipped": 0, "names": [],
    }  # fmt: skip
    newer = "100% tests passed out of 72\n\nTotal Test time (real) = 2.74 sec\n"
    assert versions.outcome("C++ tests", newer + newer, 0)["passed"] == 144
    assert versions.outcome("C++ tests", "it does not compile", 1)["failed"] == 1
    with pytest.raises(versions.StepError, match="no total"):
        versions.outcome("C++ tests", "", 0)
    with pytest.raises(StepError, match="hpu: its output has no total"):
        versions.outcome("hpu", "Segmentation fault", -11)


class Told:
    """A budget without a limit, which keeps what it is told."""

    def __init__(self):
        self.lines = []

    def seconds(self, most):
        return most

    def say(self, line):
        self.lines.append(line)

    def done(self, name, how):
        pass

    def doing(self, suite, test):
        import contextlib

        return contextlib.nullcontext()


def test_what_was_done_is_not_done_again_but_what_gave_no_result_is(monkeypatch, tmp_path):
    ran = []
    outcomes = {step: {"passed": 1, "failed": 0, "skipped": 0, "seconds": 1} for step in versions.STEPS}
    outcomes |= {"build": {"seconds": 1}, "lazy": {"problem": "not finished after 9 s", "seconds": 9}}
    kept = versions.Kept("versions", "of these sources", tmp_path)
    monkeypatch.setattr(versions, "kept", lambda version: kept)
    monkeypatch.setattr(versions, "one", lambda version, step, seconds: ran.append(step) or outcomes[step])
    told = Told()
    versions.run(VERSION, told)
    assert ran == ["build", *versions.STEPS]
    assert "9.9.0-py3.99: lazy: not finished after 9 s" in told.lines
    ran.clear()
    versions.run(VERSION, told)
    assert ran == ["build", "lazy"]  # ninja sees whether something is to build


def test_a_version_that_does_not_build_ends_there(monkeypatch, tmp_path):
    monkeypatch.setattr(versions, "kept", lambda version: versions.Kept("versions", "", tmp_path))
    monkeypatch.setattr(environments, "find_python", lambda version: None)
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    told = Told()
    versions.run(VERSION, told)
    assert told.lines == ["9.9.0-py3.99: build: no Python 3.99 on PATH or among pyenv's; install one"]


def test_tests_do_not_see_variables_of_the_build(monkeypatch):
    """The device would report them as unknown, and under warnings as errors it would not load."""
    monkeypatch.setattr(environments, "checked", lambda *arguments: calls.append(arguments))
    calls = []
    environments.build(VERSION, 1)
    assert "OPENHPU_BUILD_FOLDER" in calls[0][-1]
    assert "OPENHPU_BUILD_FOLDER" not in environments.variables(VERSION)
