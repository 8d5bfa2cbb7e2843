"""Numbers are quoted of committed code on an idle machine only."""

import itertools
import subprocess

import pytest

from benchmarks import quotable


@pytest.fixture
def repository(tmp_path):
    def git(*arguments):
        identity = ["-c", "user.name=n", "-c", "user.email=e@x"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    (tmp_path / "benchmarks").mkdir()
    for name in ("a.py", "benchmarks/RESULTS.md"):
        (tmp_path / name).write_text("1")
    git("add", ".")
    git("commit", "-m", "first")
    return tmp_path


def test_committed_code_on_an_idle_machine_is_quoted(repository):
    assert quotable.why_not(repository, lambda: 0.1) == ""
    assert not quotable.commit(repository).endswith("+")


def test_results_may_differ(repository):
    (repository / "benchmarks" / "RESULTS.md").write_text("2")
    assert quotable.why_not(repository, lambda: 0.0) == ""


@pytest.mark.parametrize("name", ["a.py", "new.py"])
def test_other_code_is_not_quoted(repository, name):
    (repository / name).write_text("2")
    assert f"1 files differ from the commit ({name} ...)" in quotable.why_not(repository, lambda: 0.0)
    assert quotable.commit(repository).endswith("+")


def test_a_busy_machine_is_not_quoted(repository):
    assert "other processes took 2.0 s" in quotable.why_not(repository, lambda: 2.0)


def test_what_this_process_does_is_not_foreign():
    readings = itertools.chain([(100.0, 5.0), (103.0, 7.5)])
    assert quotable.foreign_seconds(lambda: next(readings), 0) == 0.5
