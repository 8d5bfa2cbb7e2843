"""Trainer on two devices, each in a process of its own, with a replica of the model."""

import pytest
import torch
import torch.distributed as dist

from lightning_habana import HPUDDPStrategy, HPUParallelStrategy, roots
from tests.distributed.ranks import ranks
from tests.lightning.support import Classifier, fit_in_ranks, loader, make_trainer, trained_on_cpu

# Each of these is two processes, each with half of a batch, whose gradients are averaged.
CHOICES = {
    "auto": lambda: {},
    "name": lambda: {"strategy": "hpu_ddp"},
    "base's name": lambda: {"strategy": "hpu_parallel"},
    "base": lambda: {"strategy": HPUParallelStrategy()},
    "options": lambda: {
        "strategy": HPUDDPStrategy(bucket_cap_mb=1, gradient_as_bucket_view=True, static_graph=True, parallel_devices=2)
    },
}


def check_equal_weights(model):
    mine = model.weights().hpu()
    gathered = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, mine)
    for other in gathered:
        assert torch.equal(other, mine)


@pytest.mark.parametrize("choice", CHOICES)
@ranks(2, backend="hccl")
def test_trains_as_one_process_on_the_whole_batch(choice):
    model = Classifier()
    trainer = fit_in_ranks(model, **CHOICES[choice]())
    assert type(trainer.strategy) is (HPUParallelStrategy if "base" in choice else HPUDDPStrategy)
    assert trainer.world_size == 2
    check_equal_weights(model)
    torch.testing.assert_close(model.weights(), trained_on_cpu(), rtol=1e-4, atol=1e-5)


@ranks(2, backend="hccl")
def test_samples_are_shared_out():
    model = Classifier()
    trainer = make_trainer(accelerator="hpu", devices=2, precision="bf16-mixed")
    trainer.fit(model, loader(), loader(2))
    assert len(model.losses) == 2 * (3 + 1) + 1
    assert model.dtypes == {torch.bfloat16}
    check_equal_weights(model)
    # What is logged is the mean over the processes.
    logged = torch.tensor([trainer.callback_metrics["val_loss"]], device="hpu")
    mean = logged.clone()
    dist.all_reduce(mean)
    assert torch.equal(mean / 2, logged)


@ranks(2, backend="hccl")
def test_reductions_of_logged_numbers():
    strategy = make_trainer(accelerator="hpu", devices=2).strategy
    rank = dist.get_rank()
    value = torch.tensor([rank + 1])
    assert strategy.reduce(value).tolist() == [1.5]
    assert strategy.reduce(value, reduce_op="sum").tolist() == [3]
    assert strategy.reduce(value, reduce_op="max").tolist() == [2]
    assert strategy.reduce("text") == "text"
    assert strategy.broadcast({"rank": rank}, src=1) == {"rank": 1}
    assert strategy.reduce_boolean_decision(True)
    assert not strategy.reduce_boolean_decision(rank == 0)
    assert strategy.all_gather(torch.tensor([rank], device="hpu")).flatten().tolist() == [0, 1]
    with pytest.raises(TypeError, match=r"Unsupported ReduceOp product.*sum, min, max"):
        strategy.reduce(value, reduce_op="product")


def test_without_hpu_accelerator():
    strategy = HPUDDPStrategy()
    with pytest.raises(roots.MisconfigurationException, match=r"`HPUDDPStrategy` requires HPUAccelerator\. Found None"):
        strategy.setup_environment()


def test_devices_of_another_kind():
    with pytest.raises(roots.MisconfigurationException, match="expected hpu devices, got cpu"):
        HPUDDPStrategy(parallel_devices=[torch.device("cpu")] * 2)
