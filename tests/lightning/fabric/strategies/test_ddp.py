"""Fabric on two devices with a replica of the model on each."""

import torch
import torch.distributed as dist

from lightning_habana import roots
from lightning_habana.fabric import HPUParallelStrategy
from tests.distributed.ranks import ranks
from tests.lightning.fabric.strategies.test_fsdp import train
from tests.lightning.fabric.strategies.test_single import train as train_alone
from tests.lightning.support import Classifier, weights

make = roots.fabric().Fabric


@ranks(2, backend="hccl")
def test_trains_as_one_process_on_the_whole_batch():
    class Own(HPUParallelStrategy):
        reduced = 0

        def all_reduce(self, *args, **kwargs):
            self.reduced += 1
            return super().all_reduce(*args, **kwargs)

    runner = make(accelerator="hpu", devices=2, strategy=Own(gradient_as_bucket_view=True))
    runner.launch()
    layers = Classifier().layers
    model, optimizer = runner.setup(layers, torch.optim.AdamW(layers.parameters(), lr=0.05))
    train(runner, model, optimizer, 2)
    torch.testing.assert_close(weights(model), weights(train_alone("cpu")[1]), rtol=1e-4, atol=1e-5)
    assert runner.all_reduce(torch.tensor([dist.get_rank()])).tolist() == [0.5]
    assert runner.strategy.reduced == 1
    assert runner.broadcast(dist.get_rank(), src=1) == 1
