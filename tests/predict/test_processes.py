"""Scripts with a process group of their own, traced as one of many ranks."""

import re
import resource
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from openhpu_predict import PredictError, fake, load, network, predict, ranks, record
from openhpu_predict.memory import memory
from openhpu_predict.operators import Kind
from tests.predict.test_prediction import command

WIDTH = 64
PARAMETERS = 2 * (2 * WIDTH * 4 * WIDTH + 4 * WIDTH + WIDTH)  # of two blocks


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


def replicated(model, mesh):
    return DistributedDataParallel(model)


def sharded(model, mesh):
    for one in model:
        fully_shard(one, mesh=mesh["data"])
    return fully_shard(model, mesh=mesh["data"])


def split(model, mesh):
    for one in model:
        parallelize_module(one, mesh["tensor"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return model


def both(model, mesh):
    return sharded(split(model, mesh), mesh)


def traced(parallel, shape=(2, 8)):
    with ranks(shape[0] * shape[1]):
        dist.init_process_group("hccl")
        mesh = init_device_mesh("hpu", shape, mesh_dim_names=("data", "tensor"))
        with fake():
            model = parallel(nn.Sequential(Block(), Block()), mesh)
            optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
            x = torch.ones(8, WIDTH)

        def step(x):
            model(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

        return record(step, x)


@pytest.mark.parametrize(
    "parallel, expected",  # collectives of a step: the name, their number, the ranks, the sum of their bytes
    [
        (replicated, {("all_reduce", tuple(range(16))): 4 * PARAMETERS}),
        (sharded, {("all_gather", (0, 8)): 8 * PARAMETERS, ("reduce_scatter", (0, 8)): 4 * PARAMETERS}),
        (split, {("all_reduce", tuple(range(8))): 3 * 8 * WIDTH * 4}),
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
    assert recording.cards == 16 and found.keys() == expected.keys()
    for key, size in expected.items():
        assert size <= found[key] <= 1.5 * size, key  # FSDP gathers a block again for its backward pass


def test_a_card_has_its_part_of_the_memory():
    whole, data, tensor, all_of_it = (
        memory(traced(parallel), 1e12).phases["optimizer"] for parallel in (replicated, sharded, split, both)
    )
    assert data["optimizer"] == pytest.approx(whole["optimizer"] / 2, rel=0.1)
    assert tensor["optimizer"] == pytest.approx(whole["optimizer"] / 8, rel=0.2)
    assert all_of_it["optimizer"] == pytest.approx(whole["optimizer"] / 16, rel=0.3)
    assert data["weights"] == pytest.approx(whole["weights"] / 2, rel=0.1)


def test_collectives_overlap_with_what_does_not_need_them():
    with ranks(8), fake():
        dist.init_process_group("hccl")
        a, sent = torch.empty(8192, 8192, dtype=torch.bfloat16), torch.empty(2**27)

        def apart():
            dist.all_reduce(sent)
            return a @ a

        def after():
            dist.all_reduce(sent)
            return sent[: 2**13].view(1, -1) @ a.float()

        overlapped, waits = predict(apart, device="gaudi2"), predict(after, device="gaudi2")
    times = [kernel.seconds for kernel in overlapped.timeline.kernels]
    assert overlapped.seconds < sum(times) and overlapped.seconds >= max(times)
    assert waits.seconds >= sum(kernel.seconds for kernel in waits.timeline.kernels)
    assert overlapped.cards == 8


def test_wrong_numbers_of_cards():
    with pytest.raises(PredictError, match="cards is 0; expected 1 or more"), ranks(0):
        pass
    message = r"12 cards .* device mesh: 2 data x 8 tensor are 16; .* --cards 16"
    with pytest.raises(PredictError, match=message), ranks(12):
        dist.init_process_group("hccl")
        init_device_mesh("hpu", (2, 8), mesh_dim_names=("data", "tensor"))
    assert not dist.is_initialized()
    with ranks(8):
        dist.init_process_group()
        with pytest.raises(PredictError, match="has a process group already"), ranks(8):
            pass
        with fake():
            x = torch.ones(8)
        with pytest.raises(PredictError, match="cards is 4; expected 8, as many as the script's process group has"):
            predict(lambda: x + 1, cards=4)


SCRIPT = """
import os
import torch
import torch.distributed as dist
import habana_frameworks.torch.distributed.hccl
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
    optimizer.zero_grad()
"""


def test_a_script_runs_as_one_of_many_ranks(tmp_path):
    found, _ = command(tmp_path, SCRIPT, "--cards", "16", "--tokens", "100", "--compile-ms-per-op", "20")
    assert found.returncode == 0, found.stderr
    assert "rank 0 of 16 local 0" in found.stdout and "tokens/s on 16 cards" in found.stdout
    assert re.search(r"network +MME +0%  Distrib|  network  ", found.stdout), found.stdout
    assert re.search(r"compilation: \d+ graphs, as the device's cache counted them, .* at 20 ms", found.stdout)


def test_a_mesh_that_the_cards_do_not_fill(tmp_path):
    found, _ = command(tmp_path, SCRIPT, "--cards", "24")
    assert found.returncode == 2 and "24 cards cannot be divided by the script's device mesh: 2" in found.stderr


LARGE = """
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
import openhpu_predict
from openhpu_predict.models import CONFIGS, Llama
from openhpu_predict.prediction import price

with openhpu_predict.ranks(64):
    torch.distributed.init_process_group("hccl")
    mesh = init_device_mesh("hpu", (8, 8), mesh_dim_names=("data", "tensor"))
    with openhpu_predict.fake():
        model = Llama(CONFIGS["llama3.1-70b"], "fp8", train=True, tensor=8)
        for layer in model.layers:
            fully_shard(layer, mesh=mesh["data"])
        optimizer = torch.optim.AdamW(fully_shard(model, mesh=mesh["data"]).parameters(), foreach=True)
        words = torch.zeros(1, 4096, dtype=torch.int64)

    def step():
        model(words).backward()
        optimizer.step()
        optimizer.zero_grad()

    found = price(openhpu_predict.record(step, ranks=8), openhpu_predict.load("gaudi2"))
    found.tokens = 8 * 4096
    print(found)
"""


def test_a_llama_of_70b_on_64_cards_needs_less_than_4_gb():
    done = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, timeout=540)
    assert done.returncode == 0, done.stderr
    assert "tokens/s on 64 cards" in done.stdout and "does not fit" not in done.stdout
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 4 * 2**20  # KiB, of the largest child
    assert load("gaudi2").hbm_bytes > 90e9
