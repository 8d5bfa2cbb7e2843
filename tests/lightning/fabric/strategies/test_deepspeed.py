"""Fabric with DeepSpeed on two devices."""

import pytest
import torch

from lightning_habana import roots
from lightning_habana.fabric import HPUDeepSpeedStrategy
from tests.deepspeed.training import deepspeed_alone
from tests.distributed.ranks import ranks
from tests.lightning.fabric.strategies.test_fsdp import train
from tests.lightning.fabric.strategies.test_single import train as train_alone
from tests.lightning.fabric.strategies.test_single import weights
from tests.lightning.support import Classifier

make = roots.fabric().Fabric


def setup(strategy, **arguments):
    runner = make(accelerator="hpu", devices=2, strategy=strategy, **arguments)
    assert isinstance(runner.strategy, HPUDeepSpeedStrategy)
    runner.launch()
    layers = Classifier().layers
    return runner, *runner.setup(layers, torch.optim.AdamW(layers.parameters(), lr=0.05))


def whole(model):
    import deepspeed

    parameters = list(model.parameters())
    with deepspeed.zero.GatheredParameters(parameters, enabled=hasattr(parameters[0], "ds_id")):
        return weights(model)


@pytest.mark.parametrize(
    "strategy", ["hpu_deepspeed", "hpu_deepspeed_stage_1", "hpu_deepspeed_stage_2_offload", "hpu_deepspeed_stage_3"]
)
@ranks(2, backend="hccl")
def test_trains_as_one_process_on_the_whole_batch(strategy):
    with deepspeed_alone():
        runner, model, optimizer = setup(strategy)
        train(runner, model, optimizer, 2)
        torch.testing.assert_close(whole(model), weights(train_alone("cpu")[1]), rtol=1e-4, atol=1e-5)


@ranks(2, backend="hccl")
def test_a_precision():
    with deepspeed_alone():
        runner, model, optimizer = setup(HPUDeepSpeedStrategy(stage=1), precision="bf16-mixed")
        assert next(model.parameters()).dtype == torch.bfloat16
        train(runner, model, optimizer, 2)
        assert 0 < (whole(model) - weights(train_alone("cpu")[1])).abs().mean() < 0.05


@pytest.mark.parametrize("stage", [2, 3])
@ranks(2, backend="hccl")
def test_a_checkpoint_of_half_the_training(stage, tmp_path):
    with deepspeed_alone():
        runner, model, optimizer = setup(HPUDeepSpeedStrategy(stage=stage))
        train(runner, model, optimizer, 1)
        runner.save(tmp_path / "half", {"model": model, "optimizer": optimizer, "epoch": 1})
        runner, model, optimizer = setup(HPUDeepSpeedStrategy(stage=stage))
        state = {"model": model, "optimizer": optimizer, "epoch": 0}
        runner.load(tmp_path / "half", state)
        assert state["epoch"] == 1
        train(runner, model, optimizer, 1)
        torch.testing.assert_close(whole(model), weights(train_alone("cpu")[1]), rtol=1e-4, atol=1e-5)


@ranks(2, backend="hccl")
def test_no_folder_for_files():
    with deepspeed_alone(), pytest.raises(roots.MisconfigurationException, match="nvme_path='/local_nvme'"):
        setup("hpu_deepspeed_stage_3_offload_nvme")
