"""The part of the conformance suite that every change runs: float32 of everything and a fixed share of the rest."""

import subprocess
import sys

import pytest

from tests.conformance.database import FAMILIES
from tests.conformance.pool import ROOT


@pytest.mark.parametrize("family", FAMILIES)
def test_family(family):
    command = [sys.executable, "-m", "tests.conformance.run", "--mode", "eager", "--part", "ci", "--family", family]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    passed = int(done.stdout.splitlines()[-1].split(" passed, ")[0])
    assert passed > 10
