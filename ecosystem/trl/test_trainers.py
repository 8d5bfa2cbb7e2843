"""trl's trainers on hpu and on the CPU: the same losses where nothing is drawn, the same rules where it is."""

import math

import pytest

from ecosystem.both import on_both

COMPARED = ("sft", "sft, lora", "sft, checkpointing", "dpo", "reward", "kto")
SAMPLED = ("grpo", "rloo")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """What `train.py` found on each device."""
    return on_both("ecosystem.trl.train", tmp_path_factory.mktemp("trained"))


def both(trained, name):
    found, expected = (trained[device][name] for device in ("hpu", "cpu"))
    assert "error" not in expected, f"on the CPU: {expected}"
    assert "error" not in found, found
    return found, expected


@pytest.mark.parametrize("name", COMPARED)
def test_same_as_on_the_cpu(trained, name):
    found, expected = both(trained, name)
    assert len(expected["loss"]) >= 4
    for key, values in expected.items():
        assert found[key] == pytest.approx(values, rel=1e-3, abs=1e-4), key


def test_offloaded_activations(trained):
    """Only accelerators offload; the losses are those without."""
    found, expected = trained["hpu"]["sft, offloading"], trained["hpu"]["sft"]
    assert "error" not in found, found
    assert found["loss"] == pytest.approx(expected["loss"], rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("name", SAMPLED)
def test_from_samples(trained, name):
    found, expected = both(trained, name)
    for key in ("loss", "reward", "kl", "completions/mean_length"):
        assert len(found[key]) == len(expected[key]), key
        assert all(math.isfinite(value) for value in found[key]), key
    assert [len(each) for each in found["samples"]] == [len(each) for each in expected["samples"]]
    assert all(0 < length <= 8 for length in found["completions/mean_length"])
    assert any(len(set(each)) > 1 for each in found["samples"])


def test_samples_depend_on_the_seed_alone(trained):
    assert trained["hpu"]["grpo"] == trained["hpu"]["grpo, again"]
