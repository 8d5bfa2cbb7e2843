"""GaudiTrainer on hpu against transformers' Trainer on the CPU."""

import pytest

from ecosystem.both import on_both
from ecosystem.optimum_habana.train_cases import BFLOAT16, CASES, LENGTH, STEPS


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """What `train.py` found on each device."""
    return on_both("ecosystem.optimum_habana.train", tmp_path_factory.mktemp("trained"))


@pytest.mark.parametrize("case", CASES)
def test_losses(trained, case):
    assert len(trained["cpu"][case]) == STEPS
    near = {"rel": 0.03} if case in BFLOAT16 else {"rel": 1e-3, "abs": 1e-4}
    assert trained["hpu"][case] == pytest.approx(trained["cpu"][case], **near)
    assert trained["hpu"][case][-1] < trained["hpu"][case][0]


def test_resumed(trained):
    assert trained["hpu"]["resumed"] == pytest.approx(trained["hpu"]["plain"][STEPS // 2 :], rel=1e-4)


def test_evaluation(trained):
    for name in ("eval_loss", "accuracy"):
        assert trained["hpu"]["evaluation"][name] == pytest.approx(trained["cpu"]["evaluation"][name], rel=1e-3)


def test_sequences(trained):
    assert trained["hpu"]["sequences"] == pytest.approx(trained["cpu"]["sequences"], rel=1e-3)


def test_generated_sequences(trained):
    found = trained["hpu"]["tokens"]
    assert not isinstance(found, str), found
    # Trainer pads to its default length, GaudiTrainer does not.
    assert found == [row[:LENGTH] for row in trained["cpu"]["tokens"]]
