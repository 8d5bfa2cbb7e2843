"""Gaudi's table of operators and dtypes: a tenth of its cells in every mode, another one each day."""

import subprocess
import sys

import pytest

from tests.conformance import gaudi, gaudi_cells
from tests.conformance.pool import ROOT


def test_the_table_holds_what_it_held():
    assert gaudi_cells.cells() == 2469
    cases = gaudi_cells.cases((gaudi_cells.EAGER,))
    # Both 8-bit floats of a cell; embedding and pixel_shuffle stand twice in the table.
    assert len(cases) == 2558
    assert sum(len([c for c in cases if c.seed % 10 == k]) for k in range(10)) == len(cases)


def test_each_tenth_is_another(monkeypatch):
    cases = gaudi_cells.cases((gaudi_cells.EAGER,))
    found = []
    for k in range(10):
        monkeypatch.setenv("CONFORMANCE_TENTH", str(k))
        found += gaudi.tenth(cases)
    assert sorted(found) == sorted(cases)


@pytest.mark.parametrize("family", gaudi_cells.FAMILIES)
def test_family(family):
    command = [sys.executable, "-m", "tests.conformance.run", "--mode", "gaudi", "--part", "ci", "--family", family]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    assert int(done.stdout.splitlines()[-1].split(" passed, ")[0]) > 100
