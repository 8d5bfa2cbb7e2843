"""The faults of tests/faults: each patch fits, and names tests that exist."""

import re

import pytest

from tests.faults import core, faults
from tests.run import SUITES

FAULTS = faults.read_all()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_patch_fits_and_its_tests_exist(fault):
    assert faults.apply(fault, faults.ROOT, "--check") == "", "renew the patch: make faults"
    for suite, arguments in fault.tests:
        assert suite in SUITES
        for argument in arguments:
            file, _, name = argument.partition("::")
            text = (faults.ROOT / file).read_text()
            assert re.search(rf"^ *def {re.escape(name.split('::')[-1].partition('[')[0])}\(", text, re.MULTILINE), (
                argument
            )


def test_there_are_faults_in_each_part():
    parts = {"/".join(file.split("/")[:2]) for fault in FAULTS for file in fault.files}
    assert parts >= {
        "csrc/device",
        "csrc/graph",
        "csrc/modes",
        "csrc/ops",
        "csrc/runtime",
        "csrc/distributed",
        "src/openhpu",
    }
    assert len(FAULTS) >= 40


def test_a_patch_without_a_test_is_refused(tmp_path):
    path = tmp_path / "a.patch"
    path.write_text("Fault: something\n\n--- a/x\n+++ b/x\n")
    with pytest.raises(ValueError, match=r"a\.patch: expected"):
        faults.read(path)


def test_a_patch_that_does_not_fit_is_told(tmp_path):
    (tmp_path / "x").write_text("one\n")
    path = tmp_path / "a.patch"
    path.write_text("Fault: f\nFound by: hpu t.py\n\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-two\n+three\n")
    fault = faults.read(path)
    assert "patch does not apply" in faults.apply(fault, tmp_path, "--check")
    path.write_text(path.read_text().replace("-two", "-one"))
    assert faults.apply(fault, tmp_path) == ""
    assert (tmp_path / "x").read_text() == "three\n"
    assert faults.apply(fault, tmp_path, "--reverse") == ""
    assert (tmp_path / "x").read_text() == "one\n"


def test_what_is_compiled_for_a_change(tmp_path):
    csrc = tmp_path / "csrc"
    (csrc / "a").mkdir(parents=True)
    (csrc / "a/deep.h").write_text("")
    (csrc / "a/near.h").write_text('#include "a/deep.h"\n')
    (csrc / "a/one.cpp").write_text('#include "a/near.h"\n')
    (csrc / "a/two.cpp").write_text("#include <deep.h>\n")
    assert core.changed_sources(tmp_path, ("csrc/a/deep.h",)) == {"csrc/a/one.cpp"}
    assert core.changed_sources(tmp_path, ("csrc/a/two.cpp", "src/x.py")) == {"csrc/a/two.cpp"}
