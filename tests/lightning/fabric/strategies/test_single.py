"""Fabric on one device."""

import pytest
import torch

from lightning_habana import fabric, roots
from lightning_habana.fabric.plugins import HPUPrecision
from tests.lightning.support import Classifier, loader, weights

make = roots.fabric().Fabric


def train(device, steps=2, **arguments):
    runner = make(accelerator=device, devices=1, **arguments)
    layers = Classifier().layers
    model, optimizer = runner.setup(layers, torch.optim.AdamW(layers.parameters(), lr=0.05))
    batches = runner.setup_dataloaders(loader())
    dtypes = set()
    for _ in range(steps):
        for images, labels in batches:
            assert images.device.type == device
            logits = model(images)
            dtypes.add(logits.dtype)
            optimizer.zero_grad()
            runner.backward(torch.nn.functional.cross_entropy(logits, labels))
            optimizer.step()
    return runner, model, optimizer, dtypes


def test_trains_as_on_the_cpu():
    torch.testing.assert_close(weights(train("hpu")[1]), weights(train("cpu")[1]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed", "bf16-true"])
def test_precision(precision):
    runner, model, _, dtypes = train("hpu", precision=precision)
    assert isinstance(runner._precision, HPUPrecision) == precision.endswith("-mixed")
    # Fabric hands results of a mixed precision back in float32.
    assert dtypes == {torch.float32}
    difference = (weights(model) - weights(train("cpu")[1])).abs().mean()
    assert 0 < difference < 0.05


@pytest.mark.parametrize("precision", ["bf16", "bf16-mixed"])
def test_bfloat16_is_meant_by_both_names(precision):
    plugin = HPUPrecision(precision)
    with plugin.forward_context():
        assert (torch.ones(2, 2, device="hpu") @ torch.ones(2, 2, device="hpu")).dtype is torch.bfloat16


def test_checkpoints_are_on_the_cpu(tmp_path):
    runner, model, optimizer, _ = train("hpu")
    runner.save(tmp_path / "one.ckpt", {"model": model, "optimizer": optimizer, "step": 3})
    saved = torch.load(tmp_path / "one.ckpt", weights_only=True)
    assert {value.device.type for value in saved["model"].values()} == {"cpu"}
    _, other, other_optimizer, _ = train("hpu", steps=0)
    state = {"model": other, "optimizer": other_optimizer, "step": 0}
    runner.load(tmp_path / "one.ckpt", state)
    assert state["step"] == 3
    assert torch.equal(weights(other), weights(model))


def test_another_device_is_refused():
    with pytest.raises(ValueError, match=r"device='cpu'\): expected an hpu device"):
        fabric.SingleHPUStrategy(device="cpu")
