"""Sharded training on hpu: FullyShardedDataParallel, fully_shard, tensor parallel, pipelines, checkpoints."""

import copy
import gc

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module

from tests.distributed.ranks import ranks


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


def make_model():
    torch.manual_seed(1)
    return nn.Sequential(Block(), Block(), nn.Linear(16, 4))


def batches(n, world, rows=4):
    generator = torch.Generator().manual_seed(7)
    return [torch.randn(world, rows, 16, generator=generator) for _ in range(n)]


def sharded(**options):
    device = torch.device("hpu", torch.hpu.current_device())
    return FullyShardedDataParallel(make_model(), device_id=device, **options)


def train(model, inputs):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for x in inputs:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def expected_losses(world, steps=4):
    """The whole batch in one process: the mean over ranks of each rank's loss."""
    model = make_model()
    inputs = [x.reshape(-1, 16) for x in batches(steps, world)]
    return [loss.item() for loss in train(model, inputs)]


def check_losses(losses, world, rel=1e-4):
    for loss, expected in zip(losses, expected_losses(world), strict=True):
        dist.all_reduce(loss)
        assert (loss / world).item() == pytest.approx(expected, rel=rel)


def mine(inputs):
    return [x[dist.get_rank()].to("hpu") for x in inputs]


@pytest.mark.parametrize("strategy", ["FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"])
@ranks(2)
def test_fsdp(strategy):
    model = sharded(sharding_strategy=ShardingStrategy[strategy], auto_wrap_policy=ModuleWrapPolicy({Block}))
    check_losses(train(model, mine(batches(4, 2))), 2)


@ranks(2)
def test_fully_shard():
    model = make_model().to("hpu")
    mesh = init_device_mesh("hpu", (2,))
    for block in model[:2]:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    held = sum(p.to_local().numel() for p in model.parameters())
    assert held <= sum(p.numel() for p in make_model().parameters()) * 0.6
    check_losses(train(model, mine(batches(4, 2))), 2)


@ranks(2)
def test_tensor_and_sequence_parallel():
    mesh = init_device_mesh("hpu", (2,))
    torch.manual_seed(1)
    block = Block()
    expected = block(batches(1, 1)[0][0])
    parallel = parallelize_module(
        copy.deepcopy(block).to("hpu"), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()}
    )
    x = batches(1, 1)[0][0].to("hpu")
    torch.testing.assert_close(parallel(x).cpu(), expected)
    norm = parallelize_module(nn.LayerNorm(16).to("hpu"), mesh, SequenceParallel(sequence_dim=0))
    full = norm(x.chunk(2)[dist.get_rank()]).full_tensor()
    torch.testing.assert_close(full.cpu(), nn.LayerNorm(16)(x.cpu()))


@pytest.mark.parametrize("schedule", ["ScheduleGPipe", "Schedule1F1B"])
@ranks(2)
def test_pipeline(schedule):
    from torch.distributed import pipelining

    rank = dist.get_rank()
    model = make_model()
    stages = [nn.Sequential(model[0]), nn.Sequential(model[1], model[2])]
    reference = copy.deepcopy(model)
    x = batches(1, 1, rows=8)[0][0]
    expected = reference(x)
    expected.square().mean().backward()
    device = torch.device("hpu", torch.hpu.current_device())
    stage = pipelining.PipelineStage(stages[rank].to(device), rank, 2, device)
    runner = getattr(pipelining, schedule)(stage, n_microbatches=4, loss_fn=lambda y, _: y.square().mean())
    if rank == 0:
        runner.step(x.to(device))
    else:
        out = runner.step(target=torch.zeros(8, 4, device=device), losses=[])
        torch.testing.assert_close(out.cpu(), expected.detach())
    same = reference[0] if rank == 0 else reference[1]
    torch.testing.assert_close(stages[rank][0].up.weight.grad.cpu(), same.up.weight.grad)


@ranks(4)
def save_on_four(folder):
    model = make_model().to("hpu")
    fully_shard(model, mesh=init_device_mesh("hpu", (4,)))
    dcp.save({"model": model.state_dict()}, checkpoint_id=folder)


@ranks(2)
def load_on_two(folder):
    torch.manual_seed(5)
    model = nn.Sequential(Block(), Block(), nn.Linear(16, 4)).to("hpu")
    fully_shard(model, mesh=init_device_mesh("hpu", (2,)))
    state = {"model": model.state_dict()}
    dcp.load(state, checkpoint_id=folder)
    model.load_state_dict(state["model"])
    for a, b in zip(model.parameters(), make_model().parameters(), strict=True):
        assert torch.equal(a.full_tensor().cpu(), b)


def test_checkpoint_of_four_on_two(tmp_path):
    save_on_four(tmp_path)
    load_on_two(tmp_path)


@pytest.mark.parametrize("way", ["fully_shard", "FullyShardedDataParallel"])
@ranks(4)
def test_memory_is_a_quarter(way):
    """Parameters and gradients between steps, and AdamW's two moments: each rank holds its part of each."""
    size = dist.get_world_size()
    torch.hpu.synchronize()
    gc.collect()
    before = torch.hpu.memory_allocated()
    model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(4)))
    whole = sum(p.nbytes for p in model.parameters())
    if way == "fully_shard":
        for layer in model:
            fully_shard(layer, mesh=init_device_mesh("hpu", (size,)))
        fully_shard(model, mesh=init_device_mesh("hpu", (size,)))
    else:
        policy = ModuleWrapPolicy({nn.Linear})
        model = FullyShardedDataParallel(model, device_id=torch.device("hpu", 0), auto_wrap_policy=policy)
    gc.collect()
    assert torch.hpu.memory_allocated() - before == pytest.approx(whole / size, rel=0.1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    model(torch.ones(2, 512, device="hpu")).sum().backward()
    optimizer.step()
    torch.hpu.synchronize()
    gc.collect()
    assert torch.hpu.memory_allocated() - before == pytest.approx(4 * whole / size, rel=0.1)
