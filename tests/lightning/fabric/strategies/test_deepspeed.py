"""Fabric with DeepSpeed on two devices."""

import pytest
import torch

from lightning_habana import roots
from lightning_habana.fabric import HPUDeepSpeedStrategy
from tests.deepspeed.training import deepspeed_alone
from tests.distributed.ranks import ranks
from tests.lightning.fabric.strategies.test_fsdp import resumed, train
from tests.lightning.fabric.strategies.test_single import train as train_alone
from tests.lightning.support import Classifier, make_trainer, weights, whole_weights

make = roots.fabric().Fabric
# What an engine keeps; 800 MB each otherwise.
BUCKETS = {"reduce_bucket_size": 1000, "allgather_bucket_size": 1000}


def setup(strategy, **arguments):
    runner = make(accelerator="hpu", devices=2, strategy=strategy, **arguments)
    assert isinstance(runner.strategy, HPUDeepSpeedStrategy)
    runner.launch()
    layers = Classifier().layers
    return runner, *runner.setup(layers, torch.optim.AdamW(layers.parameters(), lr=0.05))


ARGUMENTS = [{"stage": 1}, {"stage": 2}, {"stage": 2, "offload_optimizer": True}, {"stage": 3}]


@pytest.mark.parametrize("number", range(len(ARGUMENTS)))
@ranks(2, backend="hccl", around=deepspeed_alone)
def test_trains_as_one_process_on_the_whole_batch(number):
    runner, model, optimizer = setup(HPUDeepSpeedStrategy(**ARGUMENTS[number], **BUCKETS))
    train(runner, model, optimizer, 2)
    torch.testing.assert_close(whole_weights(model), weights(train_alone("cpu")[1]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("maker", [make, make_trainer])
@pytest.mark.parametrize("name", ["", "_stage_1", "_stage_2", "_stage_2_offload", "_stage_3", "_stage_3_offload"])
def test_by_name(name, maker):
    section = maker(accelerator="hpu", devices=2, strategy=f"hpu_deepspeed{name}").strategy.config["zero_optimization"]
    assert section["stage"] == int((name + "_2").split("_")[2] if "stage" in name else 2)
    assert ("offload_optimizer" in section) == ("offload" in name)


@pytest.mark.parametrize("stage", [2, 3])
@ranks(2, backend="hccl", around=deepspeed_alone)
def test_a_checkpoint_of_half_the_training(stage, tmp_path):
    model = resumed(lambda: setup(HPUDeepSpeedStrategy(stage=stage, **BUCKETS)), tmp_path)
    torch.testing.assert_close(whole_weights(model), weights(train_alone("cpu")[1]), rtol=1e-4, atol=1e-5)
