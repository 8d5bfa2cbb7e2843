"""The part of the conformance suite that every change runs: float32 of everything and a fixed share of the rest."""

import subprocess
import sys

import pytest

from tests.conformance.database import FAMILIES, cases, modules, optimizers
from tests.conformance.pool import ROOT


# Building the databases' entries names deprecated functions; no test of ours issues these.
@pytest.mark.filterwarnings("ignore")
def test_the_databases_hold_what_they_held():
    """The numbers of torch 2.13.0: fewer would mean that cases went missing without a trace."""
    assert len(cases(("op_forward",))) == 5245
    assert len(cases(("op_backward",))) == 2404
    assert len(modules()) == 114
    assert len(optimizers()) == 15


@pytest.mark.parametrize("family", FAMILIES)
def test_family(family):
    command = [sys.executable, "-m", "tests.conformance.run", "--mode", "eager", "--part", "ci", "--family", family]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    passed = int(done.stdout.splitlines()[-1].split(" passed, ")[0])
    assert passed > 10
