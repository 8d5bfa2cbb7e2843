"""Trainer on hpu and on the CPU: the same losses and weights."""

import pytest

from ecosystem.both import on_both
from ecosystem.transformers.train_cases import CASES, STEPS

CLOSE = {"rel": 1e-4, "abs": 1e-5}
SMALL = {"rel": 1e-4, "abs": 1e-3}  # adafactor divides by what may be next to nothing
ROUGH = {"rel": 2e-2, "abs": 2e-2}  # bfloat16: the devices' autocast lists differ


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """What `train.py` found on each device."""
    return on_both("ecosystem.transformers.train", tmp_path_factory.mktemp("trained"))


@pytest.mark.parametrize("case", CASES)
def test_training(trained, case):
    found, expected = (trained[device][case] for device in ("hpu", "cpu"))
    assert found["there"]
    assert expected["there"]
    close = {"bfloat16": ROUGH, "adafactor": SMALL}.get(case, CLOSE)
    assert len(expected["losses"]) == STEPS
    assert found["losses"] == pytest.approx(expected["losses"], **close)
    assert found["weights"] == pytest.approx(expected["weights"], **close)
    assert expected["losses"][-1] < expected["losses"][0]


def test_resumed(trained):
    """With dropout: the device's generator is where it was when the checkpoint was written."""
    found = trained["hpu"]["resumed"]
    assert found["resumed"] == found["whole"]
    assert found["after"][-3:] == found["losses"][-3:]


def test_evaluation_and_best_checkpoint(trained):
    found, expected = (trained[device]["evaluation"] for device in ("hpu", "cpu"))
    assert found["accuracy"] == expected["accuracy"] == found["best"]
    assert found["loss"] == pytest.approx(expected["loss"], **CLOSE)
    for row, wanted in zip(found["predictions"], expected["predictions"], strict=True):
        assert row == pytest.approx(wanted, rel=1e-3, abs=1e-4)


def test_sequences_are_generated_while_predicting(trained):
    found, expected = (trained[device]["sequences"] for device in ("hpu", "cpu"))
    assert found["losses"] == pytest.approx(expected["losses"], **CLOSE)
    assert found["tokens"] == expected["tokens"]
