"""The part of the conformance suite that every change runs: float32 of everything, and a fifth of the rest, which the
turn chooses."""

import sys

import pytest

from tests.conformance.database import FAMILIES, cases, modules, optimizers
from tests.conformance.run import CI_PARTS, in_part
from tests.rotating import shards


# Building the databases' entries names deprecated functions; no test of ours issues these.
@pytest.mark.filterwarnings("ignore")
def test_the_databases_hold_what_they_held():
    """The numbers of torch 2.13.0: fewer would mean that cases went missing without a trace."""
    assert len(cases(("op_forward",))) == 5245
    assert len(cases(("op_backward",))) == 2404
    assert len(modules()) == 114
    assert len(optimizers()) == 15


@pytest.mark.filterwarnings("ignore")
def test_each_part_is_another():
    every = cases(("op_backward",))
    assert sorted(c for k in range(CI_PARTS) for c in every if in_part(c, k)) == sorted(every)
    assert in_part(every[0], 7) == in_part(every[0], 7 + CI_PARTS)


def run_part(mode, families, folder):
    """All families at once: a process reads the databases for seconds."""
    command = [sys.executable, "-m", "tests.conformance.run", "--mode", mode, "--part", "ci"]
    command += [text for family in families for text in ("--family", family)]
    return shards.run(command, folder)


def check_family(ran, family, more_than):
    """So many cases of a family passed, and none failed."""
    assert f"FAILED {family}:" not in ran.output, (ran.output + ran.errors)[-6000:]
    (line,) = [line for line in ran.output.splitlines() if line.startswith(f"{family}: ")]
    assert int(line.removeprefix(f"{family}: ").split(" passed, 0 failed")[0]) > more_than


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    return run_part("eager", FAMILIES, tmp_path_factory.mktemp("build"))


@pytest.mark.parametrize("family", FAMILIES)
def test_family(ran, family):
    check_family(ran, family, 10)


def test_nothing_else_went_wrong(ran):
    assert ran.code == 0, (ran.output + ran.errors)[-6000:]
