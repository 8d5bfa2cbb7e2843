"""Fabric on two devices that share a model's weights."""

import pytest
import torch
from torch.distributed.fsdp import FullyShardedDataParallel

from lightning_habana import roots
from lightning_habana.fabric import HPUFSDPPrecision, HPUFSDPStrategy
from tests.distributed.ranks import ranks
from tests.lightning.fabric.strategies.test_single import train as train_alone
from tests.lightning.support import Classifier, halves, weights

make = roots.fabric().Fabric


def setup(**arguments):
    runner = make(accelerator="hpu", devices=2, strategy=HPUFSDPStrategy(**arguments))
    runner.launch()
    model = runner.setup_module(Classifier().layers)
    return runner, model, runner.setup_optimizers(torch.optim.AdamW(model.parameters(), lr=0.05))


def train(runner, model, optimizer, epochs):
    for _ in range(epochs):
        for images, labels in halves():
            optimizer.zero_grad()
            runner.backward(torch.nn.functional.cross_entropy(model(images.hpu()), labels.hpu()))
            optimizer.step()


def gathered(model):
    with FullyShardedDataParallel.summon_full_params(model._forward_module):
        return weights(model)


def resumed(prepared, folder):
    """A model that was saved and loaded after half of its training. `prepared` makes Fabric, model and optimizer."""
    runner, model, optimizer = prepared()
    train(runner, model, optimizer, 1)
    runner.save(folder / "half", {"model": model, "optimizer": optimizer, "epoch": 1})
    runner, model, optimizer = prepared()
    state = {"model": model, "optimizer": optimizer, "epoch": 0}
    runner.load(folder / "half", state)
    assert state["epoch"] == 1
    train(runner, model, optimizer, 1)
    return model


@pytest.mark.parametrize("kind", ["full", "sharded"])
@ranks(2, backend="hccl")
def test_a_checkpoint_of_half_the_training(kind, tmp_path):
    model = resumed(lambda: setup(state_dict_type=kind), tmp_path)
    assert (tmp_path / "half").is_dir() == (kind == "sharded")
    torch.testing.assert_close(gathered(model), weights(train_alone("cpu")[1]), rtol=1e-4, atol=1e-5)


@ranks(2, backend="hccl")
def test_activation_checkpointing_with_autocast():
    layers = {torch.nn.Linear}
    runner, model, optimizer = setup(
        precision=HPUFSDPPrecision("bf16-mixed"), auto_wrap_policy=layers, activation_checkpointing_policy=layers
    )
    train(runner, model, optimizer, 2)
    assert 0 < (gathered(model) - weights(train_alone("cpu")[1])).abs().mean() < 0.05
