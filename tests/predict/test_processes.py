"""Scripts with a process group of their own, traced as one of many ranks."""

import re

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from openhpu_predict import PredictError, fake, network, predict, ranks, record
from openhpu_predict.memory import memory
from openhpu_predict.operators import Kind
from tests.predict.test_memory import step_of
from tests.predict.test_prediction import Mlp, command

WIDTH = 64
PARAMETERS = 2 * (2 * WIDTH * 4 * WIDTH + 4 * WIDTH + WIDTH)  # of two blocks


class Block(Mlp):
    def forward(self, x):
        return x + super().forward(x)


def sharded(model, mesh):
    for one in model:
        fully_shard(one, mesh=mesh["data"])
    return fully_shard(model, mesh=mesh["data"])


def split(model, mesh):
    for one in model:
        parallelize_module(one, mesh["tensor"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return model


def traced(parallel):
    with ranks(16):
        dist.init_process_group("hccl")
        mesh = init_device_mesh("hpu", (2, 8), mesh_dim_names=("data", "tensor"))
        with fake():
            step = step_of(parallel(nn.Sequential(Block(WIDTH), Block(WIDTH)), mesh))
            x = torch.ones(8, WIDTH)
        return record(step, x)


@pytest.mark.parametrize(
    "parallel, expected",  # collectives of a step: the name, their number, the ranks, the sum of their bytes
    [
        (lambda model, _: DistributedDataParallel(model), {("allreduce", tuple(range(16))): 4 * PARAMETERS}),
        (sharded, {("allgather", (0, 8)): 8 * PARAMETERS, ("reducescatter", (0, 8)): 4 * PARAMETERS}),
        (split, {("allreduce", tuple(range(8))): 3 * 8 * WIDTH * 4}),
    ],
)
def test_collectives_of_the_scripts_groups_are_recorded(parallel, expected):
    recording = traced(parallel)
    begin, end = recording.last_step()
    found = {}
    for node in recording.nodes[begin:end]:
        if node.kind is Kind.COLLECTIVE:
            key = network.name(node.op), tuple(node.ranks)
            size = max(sum(node.reads.values()), sum(node.writes.values()))
            found[key] = found.get(key, 0) + size
    assert recording.cards == 16
    assert found.keys() == expected.keys()
    for key, size in expected.items():
        assert size <= found[key] <= 1.5 * size, key  # FSDP gathers a block again for its backward pass


def test_a_card_has_its_part_of_the_memory():
    for parallel, part in (
        (lambda model, _: model, 1),
        (sharded, 2),
        (split, 8),
        (lambda model, mesh: sharded(split(model, mesh), mesh), 16),
    ):
        parts = memory(traced(parallel), 1e12).phases["optimizer"]
        assert parts["weights"] == pytest.approx(4 * PARAMETERS / part, rel=0.3)
        assert parts["optimizer"] == pytest.approx(8 * PARAMETERS / part, rel=0.3)


@pytest.mark.parametrize("needs", [False, True])
def test_collectives_overlap_with_what_does_not_need_them(needs):
    with ranks(8), fake():
        dist.init_process_group("hccl")
        x, sent = torch.empty(2**27), torch.empty(2**27)
        found = predict(lambda: (dist.all_reduce(sent), (sent if needs else x) * 2), device="gaudi2")
    times = [kernel.seconds for kernel in found.timeline.kernels]
    spent = found.seconds - found.device.graph_launch
    assert found.cards == 8
    assert spent == pytest.approx(sum(times) if needs else max(times))


def test_wrong_numbers_of_cards():
    with pytest.raises(PredictError, match="cards is 0; expected 1 or more"), ranks(0):
        pass
    message = r"12 cards .* device mesh: 2 data x 8 tensor are 16; .* --cards 16"
    with pytest.raises(PredictError, match=message), ranks(12):
        dist.init_process_group("hccl")
        dist.init_device_mesh("hpu", (2, 8), mesh_dim_names=("data", "tensor"))
    assert not dist.is_initialized()
    with ranks(8):
        dist.init_process_group()
        with fake():
            x = torch.ones(8)
        with pytest.raises(PredictError, match="cards is 4; expected 8, as many as the script's process group has"):
            predict(lambda: x + 1, cards=4)


SCRIPT = """
import os
import torch
import torch.distributed as dist
import habana_frameworks.torch.core as htcore
from torch.distributed.device_mesh import init_device_mesh
dist.init_process_group("hccl")
print("rank", dist.get_rank(), "of", dist.get_world_size(), "local", os.environ["LOCAL_RANK"])
dist.new_group(range(8), backend="gloo")
init_device_mesh("hpu", (2, 8))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1024, 1024).to("hpu"))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(9):
    model(torch.ones(8, 1024, device="hpu")).sum().backward()
    dist.barrier()
    optimizer.step()
    htcore.mark_step()
"""


def test_a_script_runs_as_one_of_many_ranks(tmp_path):
    found, _ = command(tmp_path, SCRIPT, "--cards", "16", "--tokens", "100", "--compile-ms-per-op", "20")
    assert found.code == 0, found.err
    assert "rank 0 of 16 local 0" in found.out
    assert "tokens/s on 16 cards" in found.out
    assert re.search(r"compilation: \d+ graphs, as the device's cache counted them, .* at 20 ms", found.out)
    found, _ = command(tmp_path, SCRIPT, "--cards", "24")
    assert found.code == 2
    assert "24 cards cannot be divided by the script's device mesh: 2" in found.err
