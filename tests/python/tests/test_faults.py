"""The faults of tests/faults: each patch fits, and names tests that exist."""

import re
import textwrap

import pytest

from commands import ROOT
from tests.faults import core, faults
from tests.python.commands import planted
from tests.suites import SUITES

FAULTS = faults.read_all()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_patch_fits_and_its_tests_exist(fault):
    assert faults.apply(fault, ROOT, "--check") == "", "renew the patch: make faults"
    for suite, arguments in fault.tests:
        assert suite in SUITES
        for argument in arguments:
            file, _, name = argument.partition("::")
            text = (ROOT / file).read_text()
            assert re.search(rf"^ *def {re.escape(name.split('::')[-1].partition('[')[0])}\(", text, re.MULTILINE), (
                argument
            )


def test_there_are_many():
    assert len(FAULTS) >= 40


def test_what_is_compiled_for_a_change(tmp_path):
    csrc = tmp_path / "csrc"
    (csrc / "a").mkdir(parents=True)
    (csrc / "a/deep.h").write_text("")
    (csrc / "a/near.h").write_text('#include "a/deep.h"\n')
    (csrc / "a/one.cpp").write_text('#include "a/near.h"\n')
    (csrc / "a/two.cpp").write_text("#include <deep.h>\n")
    assert core.changed_sources(tmp_path, ("csrc/a/deep.h",)) == {"csrc/a/one.cpp"}
    assert core.changed_sources(tmp_path, ("csrc/a/two.cpp", "src/x.py")) == {"csrc/a/two.cpp"}


COMMAND = """
import pathlib, sys
from tests.faults import faults, run
faults.FOLDER = pathlib.Path(sys.argv[1])
run.TIMEOUT_S = float(sys.argv[2])
sys.exit(run.main([]))
"""


def test_a_hang_does_not_outlive_the_budget(tmp_path):
    """The fault's test ignores SIGTERM, and has started a process in another session. The next run goes on."""
    mark = f"planted-{tmp_path}"
    hang = textwrap.indent(textwrap.dedent(planted.ORPHAN.format(mark=mark)), "    ")
    (tmp_path / "test_it.py").write_text(
        f"import pathlib\n\ndef test_it():\n    if not pathlib.Path('planted').exists():\n        return\n{hang}"
    )
    (tmp_path / "sleeps.patch").write_text(
        f"Fault: f\nFound by: python {tmp_path}/test_it.py\n\n--- /dev/null\n+++ b/planted\n@@ -0,0 +1 @@\n+one\n"
    )
    ended, took = planted.run(tmp_path, COMMAND, str(tmp_path), "300", BUDGET="0.3")
    assert ended.code == 124, ended.output
    assert took < 0.3 * 60 + planted.SLACK_S
    assert "ran then: python: " in ended.output
    assert "test_it.py::test_it, for " in ended.output
    assert "done: the tests without a fault (pass)\n  not done: sleeps" in ended.output
    assert not planted.processes_with(mark)
    ended, _ = planted.run(tmp_path, COMMAND, str(tmp_path), "4")
    assert ended.code == 0, ended.output
    assert "without a fault" not in ended.output
    assert "sleeps: found in " in ended.output and "test_it.py hangs" in ended.output
    assert not planted.processes_with(mark)
