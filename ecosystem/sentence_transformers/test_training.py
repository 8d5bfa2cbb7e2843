"""Trainings on hpu and on the CPU: the same losses."""

import pytest

from ecosystem.both import on_both
from ecosystem.sentence_transformers.train import CASES


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """What `train.py` found on each device."""
    return on_both("ecosystem.sentence_transformers.train", tmp_path_factory.mktemp("trained"))


@pytest.mark.parametrize("case", CASES)
def test_training(trained, case):
    assert len(trained["cpu"][case]) == 4
    assert trained["hpu"][case] == pytest.approx(trained["cpu"][case], rel=1e-3, abs=1e-4)
