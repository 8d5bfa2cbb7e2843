"""Collectives that are aborted while the library still has their memory; what is kept of captured ones."""

import gc
import os
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from tests.distributed.ranks import ranks

LAZY = os.environ.get("PT_HPU_LAZY_MODE") == "1"
NUMEL = 4096


def over_gloo():
    """A group of all ranks whose collectives Gloo makes, which cannot end one that others have not joined."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENHPU_NODE_COLLECTIVES", "0")
        return dist.new_group()


def join_late(group):
    """The other rank: takes part when the first has aborted."""
    dist.distributed_c10d._get_default_store().wait(["aborted"])
    dist.all_reduce(x := torch.full((NUMEL,), 3.0, device="hpu"), dist.ReduceOp.AVG, group=group)
    assert x.cpu().eq(2).all()  # the other had begun


def begin(group):
    """An average that has been started and that the queue waits for."""
    x = torch.ones(NUMEL, device="hpu")
    torch.hpu.synchronize()
    work = dist.all_reduce(x, dist.ReduceOp.AVG, group=group, async_op=True)
    (event := torch.hpu.Event()).record()
    event.synchronize()
    work.wait()
    return x


def stays(y, value):
    """What the library and the division after it would write comes within a moment."""
    for _ in range(20):
        assert y.eq(value).all().item()
        time.sleep(0.05)


@pytest.mark.skipif(LAZY, reason="about addresses: in lazy mode a tensor has none before a flush")
@ranks(2)
def test_memory_of_an_aborted_collective_is_given_to_nobody():
    group = over_gloo()
    if dist.get_rank() == 1:
        return join_late(group)
    x = begin(group)
    group._get_backend(torch.device("hpu")).abort()
    del x
    y = torch.full((NUMEL,), 5.0, device="hpu")
    with pytest.raises(dist.DistBackendError, match=r"allreduce failed on rank 0 of 2 .* it was aborted"):
        torch.hpu.synchronize()
    dist.distributed_c10d._get_default_store().set("aborted", "")
    stays(y, 5)


@pytest.mark.skipif(LAZY, reason="about addresses: in lazy mode a tensor has none before a flush")
@ranks(2)
def test_memory_that_others_have_by_then_is_written_after_the_library():
    group = over_gloo()
    if dist.get_rank() == 1:
        return join_late(group)
    address = (x := begin(group)).data_ptr()
    del x
    others = [torch.full((NUMEL,), 5.0, device="hpu") for _ in range(8)]  # there may be other blocks of that size
    (y,) = (other for other in others if other.data_ptr() == address)
    group._get_backend(torch.device("hpu")).abort()
    (event := torch.hpu.Event()).record()
    end = time.monotonic() + 0.5
    while time.monotonic() < end and not event.query():
        time.sleep(0.01)
    dist.distributed_c10d._get_default_store().set("aborted", "")
    with pytest.raises(dist.DistBackendError, match="it was aborted"):
        torch.hpu.synchronize()
    stays(y, 5)


def mapped():
    """How many groups' common memory this process has."""
    return sum("memfd:hccl" in line for line in Path("/proc/self/maps").read_text().splitlines())


@ranks(2)
def test_captured_collectives_go_with_their_graphs():
    counts = []
    for step in range(4):
        group = dist.new_group()
        x = torch.full((4,), float(dist.get_rank()), device="hpu")
        graph = torch.hpu.HPUGraph()
        with torch.hpu.graph(graph):
            dist.all_reduce(x, group=group)
        graph.replay()
        x.fill_(step + dist.get_rank())
        graph.replay()
        assert x.tolist() == [2.0 * step + 1] * 4
        del graph
        gc.collect()
        dist.destroy_process_group(group)
        del group
        gc.collect()
        counts.append(mapped())
    assert counts[0] == counts[-1]
