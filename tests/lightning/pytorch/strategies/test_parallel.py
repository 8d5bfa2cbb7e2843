"""HPUParallelStrategy."""

import pytest
import torch
import torch.distributed as dist

from lightning_habana import fabric, pytorch
from lightning_habana.pytorch import HPUParallelStrategy
from tests.distributed.ranks import ranks
from tests.lightning.support import Classifier, loader, make_trainer

SEVERAL_DEVICES = [pytorch.HPUParallelStrategy, pytorch.HPUDDPStrategy, pytorch.HPUFSDPStrategy]


class Recorder(HPUParallelStrategy):
    """Keeps the names of the methods that Lightning called, and the backend that it saw first."""

    strategy_name = "recorder"

    def __init__(self, **arguments):
        super().__init__(**arguments)
        self.called = []

    def setup_environment(self):
        self.called.append(f"setup_environment for {self.process_group_backend}")
        super().setup_environment()

    def model_to_device(self):
        self.called.append("model_to_device")
        super().model_to_device()

    def barrier(self, *args, **kwargs):
        self.called.append("barrier")
        super().barrier(*args, **kwargs)


def test_is_a_strategy_of_its_own():
    strategy = HPUParallelStrategy()
    assert type(strategy) is HPUParallelStrategy and strategy.strategy_name == "hpu_parallel"
    named = make_trainer(accelerator="hpu", devices=2, strategy="hpu_parallel").strategy
    assert type(named) is HPUParallelStrategy and named.parallel_devices == [torch.device("hpu")] * 2
    assert all(isinstance(kind(), HPUParallelStrategy) for kind in SEVERAL_DEVICES)


@pytest.mark.parametrize("kind", [*SEVERAL_DEVICES, fabric.HPUDDPStrategy, fabric.HPUFSDPStrategy])
def test_backend_before_setup(kind):
    assert kind().process_group_backend == "hccl"
    assert kind(process_group_backend="cpu:gloo,hpu:hccl").process_group_backend == "cpu:gloo,hpu:hccl"


@ranks(2, backend="hccl")
def test_subclass_trains():
    strategy, model = Recorder(bucket_cap_mb=1), Classifier()
    trainer = make_trainer(accelerator="hpu", devices=2, strategy=strategy, max_epochs=1)
    trainer.fit(model, loader(), loader(2))
    assert trainer.strategy is strategy and strategy.called[0] == "setup_environment for hccl"
    assert {"model_to_device", "barrier"} <= set(strategy.called)
    assert strategy.reduce(torch.tensor([dist.get_rank() + 1.0]), reduce_op="sum").tolist() == [3.0]
    weights = model.weights().to("hpu")
    total = weights.clone()
    dist.all_reduce(total)
    assert torch.equal(total / 2, weights)
