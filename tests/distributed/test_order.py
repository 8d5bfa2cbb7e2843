"""Collectives are commands of the device's queue: what the host waits for, what is ordered, what is kept alive."""

import time
import weakref
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

from openhpu import _C
from tests.distributed.ranks import call, ranks


@ranks(2)
def test_the_host_does_not_wait():
    x = torch.ones(4, device="hpu")
    x + 1  # no operator is new from here on
    torch.hpu.synchronize()
    dist.barrier()
    _C.block_queue(0)  # a host that waited would wait for ever
    work = dist.all_reduce(x, async_op=True)
    assert not work.is_completed()
    work.wait()  # orders the queue
    y = x + 1
    dist.all_reduce(y)
    _C.unblock_queue(0)
    assert y.tolist() == [6.0] * 4
    assert work.is_completed()
    assert work.is_success()


@ranks(2)
def test_a_collective_keeps_no_python_object_of_the_thread_that_starts_it():
    """It would be dropped on a thread that may not ask for Python's lock: at Python's end the process would abort."""

    class Stashed:
        """What a backward stashes for the threads that it uses."""

    x = torch.ones(4, device="hpu")
    torch.hpu.synchronize()  # nothing is left to run: this thread itself starts what it waits for
    for _ in range(5):
        stashed = Stashed()
        gone = weakref.ref(stashed)
        torch._C._stash_obj_in_tls("context", stashed)
        work = dist.all_reduce(x, async_op=True)
        work.wait()
        x.cpu()
        torch._C._remove_obj_from_tls("context")
        del stashed
        assert gone() is None
        assert work.is_completed()  # and lives


@ranks(2)
def test_completion_is_seen_without_waiting():
    rank = dist.get_rank()
    x = torch.full((8,), float(rank), device="hpu")
    work = dist.all_reduce(x, async_op=True)
    message = dist.isend(x.clone(), 1) if rank == 0 else dist.irecv(torch.zeros(8, device="hpu"), 0)
    while not (work.is_completed() and message.is_completed()):
        time.sleep(0.001)
    work.wait()
    assert x.tolist() == [1.0] * 8


@ranks(2)
def test_a_message_that_was_asked_about_is_waited_for():
    """A thread of its own has seen to its end since; the queue goes on after that, not before."""
    x = torch.zeros(8, device="hpu")
    x + 1  # no operator is new from here on
    torch.hpu.synchronize()
    waits = torch.zeros(1)
    if dist.get_rank() == 0:
        dist.recv(waits, 1)
        time.sleep(0.2)  # in which a queue that does not wait goes on
        dist.send(x + 1, 1)
    else:
        message = dist.irecv(x, 0)
        assert not message.is_completed()
        message.wait()
        y = x + 1
        dist.send(waits, 0)
        assert y.tolist() == [2.0] * 8


@ranks(2)
def test_a_wait_for_the_device_waits_for_what_nobody_awaited():
    x = torch.full((8,), float(dist.get_rank() + 1), device="hpu")
    dist.all_reduce(x, async_op=True)
    torch.hpu.synchronize()
    assert x.tolist() == [3.0] * 8


@ranks(2)
def test_tensors_live_as_long_as_their_collective():
    rank = dist.get_rank()
    torch.full((1 << 16,), 7.0, device="hpu")  # no operator is new from here on
    dist.barrier()
    _C.block_queue(0)
    work = dist.all_reduce(torch.full((1 << 16,), float(rank + 1), device="hpu"), async_op=True)
    other = torch.full((1 << 16,), 7.0, device="hpu")  # must not get the same memory
    _C.unblock_queue(0)
    work.wait()
    assert other.sum().item() == 7.0 * (1 << 16)
    assert work.result()[0].sum().item() == 3.0 * (1 << 16)


@ranks(2)
def test_memory_is_free_again_after_the_wait():
    torch.hpu.synchronize()
    before = torch.hpu.memory_allocated()
    for _ in range(3):
        x = torch.ones(1 << 16, device="hpu")
        work = dist.all_reduce(x, async_op=True)
        work.wait()
        del x, work
    assert torch.hpu.memory_allocated() == before


@ranks(2)
def test_futures():
    x = torch.full((4,), float(dist.get_rank() + 1), device="hpu")
    future = dist.all_reduce(x, async_op=True).get_future()
    halved = future.then(lambda f: [t / 2 for t in f.value()])
    assert halved.wait()[0].tolist() == [1.5] * 4


@ranks(2)
def test_a_barrier_holds_the_host():
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 1:
        time.sleep(0.3)  # so that a barrier that holds nobody is past before
        store.set("rank 1 came", "")
    dist.barrier()
    assert store.check(["rank 1 came"])
    dist.monitored_barrier()


def several_devices():
    rank = dist.get_rank()
    for step in range(3):
        x = torch.full((4,), float(rank), device="hpu:0")
        y = torch.full((2,), float(rank + step), device="hpu:1")
        torch.hpu.synchronize(0)
        if rank == 1:
            _C.block_queue(0)  # what comes later could begin before what comes first, and with the other rank's first
        dist.all_reduce(x)
        dist.broadcast(y, 0)
        if rank == 1:
            _C.unblock_queue(0)
        dist.barrier()
        assert x.tolist() == [1.0] * 4
        assert y.tolist() == [float(step)] * 2


def test_collectives_on_several_devices_of_a_process_begin_in_order():
    call(several_devices, size=2, backend="hccl", variables={"OPENHPU_DEVICE_COUNT": "2"})


@ranks(2)
def test_profiles_have_the_names_of_other_backends():
    x = torch.ones(2, 3, device="hpu")
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
        dist.all_reduce(x)
        dist.all_gather_into_tensor(torch.zeros(4, 3, device="hpu"), x)
    found = {event.name: event for event in prof.events() if event.name.startswith("hccl:")}
    assert {"hccl:all_reduce", "hccl:_all_gather_base"} <= found.keys()
    assert found["hccl:all_reduce"].input_shapes == found["hccl:_all_gather_base"].input_shapes == [[2, 3]]


@ranks(2)
def test_an_error_names_rank_operator_and_line():
    rank = dist.get_rank()
    group = dist.new_group(timeout=timedelta(seconds=1), backend="hccl")
    if rank == 0:
        x = torch.ones(4, device="hpu")
        dist.all_reduce(x, group=group)  # nobody answers
        told = r"hccl::allreduce failed on rank 0 of 2(.|\n)*test_order\.py\", line \d+"
        with pytest.raises(dist.DistBackendError, match=told):
            torch.hpu.synchronize()
    dist.barrier()


def ones(*size, **options):
    return torch.ones(*size, device="hpu", **options)


BAD = {
    "layout": (lambda: dist.all_reduce(ones(4, 4).t()[:2]), "must be contiguous"),
    "dtype": (lambda: dist.all_reduce(ones(2, dtype=torch.int16)), "not supported for HCCL"),
    "operation": (lambda: dist.all_reduce(ones(2), dist.ReduceOp.BAND), "BAND with non-integral"),
    "size": (lambda: dist.all_gather_into_tensor(ones(3), ones(2)), "world_size"),
    "splits": (lambda: dist.all_to_all_single(ones(3), ones(3)), "split sizes"),
}


@pytest.mark.parametrize("what", BAD)
@ranks(2)
def test_bad_arguments_are_told_at_once(what):
    call, text = BAD[what]
    with pytest.raises((ValueError, RuntimeError), match=text):
        call()
