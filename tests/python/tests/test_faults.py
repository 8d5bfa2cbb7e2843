"""The faults of tests/faults: each patch fits, and names tests that exist."""

import re

import pytest

from commands import ROOT
from tests.faults import faults
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
