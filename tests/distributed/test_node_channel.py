"""Collectives through memory that the ranks of one machine have: when they take it, what they give, how they fail."""

import os
import signal

import pytest
import torch
import torch.distributed as dist

import openhpu
from tests.distributed.ranks import call, ranks, run_job

CHUNK = 1 << 20  # bytes
LAZY = os.environ.get("PT_HPU_LAZY_MODE") == "1"


def through_memory(run):
    """How many of the collectives that `run` issued went through memory, and how many there were."""
    torch.hpu.synchronize()
    before = openhpu.counters()
    run()
    torch.hpu.synchronize()
    after = openhpu.counters()
    return tuple(after[name] - before[name] for name in ("collectives_in_memory", "collectives"))


def each_collective(size, numel):
    """Checks each of them on tensors of so many elements for each rank."""
    rank = dist.get_rank()
    own = [torch.arange(numel, dtype=torch.float32) % 97 + other for other in range(size)]
    x = own[rank].to("hpu")

    dist.all_reduce(y := x.clone())
    assert torch.equal(y.cpu(), sum(own))
    dist.all_reduce(y := x.clone(), dist.ReduceOp.AVG)
    assert torch.equal(y.cpu(), sum(own) / size)
    dist.broadcast(y := x.clone(), src=size - 1)
    assert torch.equal(y.cpu(), own[-1])
    dist.all_gather_into_tensor(out := torch.empty(size * numel, device="hpu"), x)
    assert torch.equal(out.cpu(), torch.cat(own))
    dist.all_gather(parts := [torch.empty_like(x) for _ in range(size)], x)
    assert all(torch.equal(part.cpu(), other) for part, other in zip(parts, own, strict=True))
    whole = torch.cat([x + other for other in range(size)])
    dist.reduce_scatter_tensor(y := torch.empty_like(x), whole)
    assert torch.equal(y.cpu(), sum(own) + size * rank)
    dist.reduce_scatter(y := torch.empty_like(x), list(whole.chunk(size)))
    assert torch.equal(y.cpu(), sum(own) + size * rank)


@pytest.mark.parametrize("numel", [0, 1, 5, CHUNK // 4, CHUNK // 4 + 1, 3 * CHUNK // 4 + 7])
@ranks(2)
def test_each_collective(numel):
    assert through_memory(lambda: each_collective(2, numel)) == (7, 7)


@ranks(4)
def test_each_collective_of_four_ranks():
    assert through_memory(lambda: each_collective(4, CHUNK // 4 + 3)) == (7, 7)


@ranks(4)
def test_groups_of_some_ranks():
    groups = [dist.new_group(members) for members in ([0, 1], [2, 3], [0, 2], [1, 3])]
    mine = [group for group in groups if dist.get_rank(group) >= 0]

    def run():
        for step in range(50):
            for group in mine:
                x = torch.full((3,), float(step), device="hpu")
                dist.all_reduce(x, group=group)
                assert x.tolist() == [2.0 * step] * 3

    # In lazy mode the ranks agree on recipes with every eighth collective of a group.
    count = 100 + (2 * (50 // 8) if LAZY else 0)
    assert (found := through_memory(run)) == (count, count), found


@ranks(2)
def test_messages_do_not():
    def run():
        x = torch.ones(2, device="hpu")
        if dist.get_rank() == 0:
            dist.send(x, 1)
        else:
            dist.recv(x, 0)

    assert through_memory(run) == (0, 1)


@ranks(2)
def test_who_broadcasts_waits_for_nobody():
    x = torch.ones(4, device="hpu")
    if dist.get_rank() == 0:
        dist.broadcast(x, 0)
        torch.hpu.synchronize()
        dist.send(x + 1, 1)
    else:
        y = torch.zeros(4, device="hpu")
        dist.recv(y, 0)
        dist.broadcast(x, 0)
        assert y.tolist() == [2.0] * 4


def counted():
    return through_memory(lambda: each_collective(2, 1000))


def test_switched_off():
    variables = {"OPENHPU_NODE_COLLECTIVES": "0"}
    assert call(counted, size=2, backend="cpu:gloo,hpu:hccl", variables=variables) == [(0, 7), (0, 7)]


@pytest.mark.parametrize("refusing", ["nobody", "0", "1"])
def test_a_rank_that_does_not_want_it(refusing):
    code = """
import openhpu
before = openhpu.counters()["collectives_in_memory"]
dist.barrier()
print("in memory", openhpu.counters()["collectives_in_memory"] - before)
"""
    switch = f"import os; os.environ['OPENHPU_NODE_COLLECTIVES'] = '01'[os.environ['RANK'] != '{refusing}']\n"
    for text in run_job(code, first=switch):
        assert f"in memory {int(refusing == 'nobody')}" in text


def test_shapes_that_differ():
    printed = run_job("dist.all_reduce(torch.ones(2 + rank, device='hpu'))\ntorch.hpu.synchronize()", [1, 1])
    for text in printed:
        assert "ranks are not in the same collective: rank" in text
        assert "allreduce (SUM) of 8 bytes as Float" in text
        assert "allreduce (SUM) of 12 bytes as Float" in text


def test_a_limit():
    code = """
group = dist.new_group(timeout=timedelta(seconds=1))
if rank == 0:
    dist.all_reduce(x, group=group)
    try:
        torch.hpu.synchronize()
    except RuntimeError as error:
        print(error)
    try:
        dist.all_reduce(x, group=group)
        torch.hpu.synchronize()
    except RuntimeError as error:
        print("again", "Timed out" in str(error))
dist.barrier()
"""
    printed = run_job(code)
    assert "Timed out waiting 1000 ms for rank 1 (process " in printed[0]
    assert "again True" in printed[0]


def test_a_rank_that_is_killed_while_its_child_lives():
    code = """
if rank == 1:
    if os.fork() == 0:
        os.close(1), os.close(2)
        time.sleep(8)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)
dist.all_reduce(x)
print(x)
"""
    printed = run_job(code, [1, -signal.SIGKILL])
    assert "hccl::allreduce failed on rank 0 of 2" in printed[0]
    assert "has ended, or has left the group, before it took part" in printed[0]


def test_a_rank_that_ends_after_its_last():
    code = """
dist.all_reduce(x)
torch.hpu.synchronize()
if rank == 0:
    os._exit(0)
time.sleep(0.5)
print(x.tolist())
os._exit(0)
"""
    printed = run_job(code)
    assert "[4.0, 4.0, 4.0, 4.0]" in printed[1]
