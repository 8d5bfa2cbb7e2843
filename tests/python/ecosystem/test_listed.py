"""The runs that a workflow's list of tests gives."""

import textwrap

import pytest

from ecosystem import listed
from ecosystem.install import LackingError

WORKFLOW = """
    env:
      PT_HPU_LAZY_MODE: 0
      TEST_LIST: |
        test_run.py
        (test_zero.py and (TestFirst or TestSecond))
        test_data.py

    # Not a test: test_other.py
"""


def planted(tmp_path, *files):
    (tmp_path / "list.yml").write_text(textwrap.dedent(WORKFLOW))
    for file in files:
        path = tmp_path / "tests" / "unit" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path / "tests"


def test_a_run_for_each_folder(tmp_path):
    tests = planted(tmp_path, "a/test_run.py", "a/test_data.py", "b/test_zero.py", "b/test_other.py", "c/test_data.py")
    runs = listed.runs(tests, "../list.yml", {"MODE": "0"})
    assert [(one.title, one.tests, one.only) for one in runs] == [
        ("unit/a", ("unit/a/test_run.py", "unit/a/test_data.py"), "test_run.py or test_data.py"),
        ("unit/b", ("unit/b/test_zero.py",), "(test_zero.py and (TestFirst or TestSecond))"),
        ("unit/c", ("unit/c/test_data.py",), "test_data.py"),
    ]
    assert runs[0].environment == {"MODE": "0"}


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(LackingError, match=r"list\.yml lists test_zero\.py, and .*tests has no such file"):
        listed.runs(planted(tmp_path, "a/test_run.py", "a/test_data.py"), "../list.yml", {})
