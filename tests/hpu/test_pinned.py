"""Pinned host memory: asynchronous copies from and to it, and the loader that uses it."""

import gc

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset


def test_pin_memory_makes_a_pinned_copy():
    x = torch.arange(5.0)
    assert not x.is_pinned()
    pinned = x.pin_memory()
    assert pinned.is_pinned()
    assert pinned.device.type == "cpu"
    assert torch.equal(pinned, x)
    assert pinned.pin_memory().data_ptr() == pinned.data_ptr()
    made = torch.empty(3, pin_memory=True), torch.zeros(3, pin_memory=True), torch.empty_like(x, pin_memory=True)
    assert all(tensor.is_pinned() and tensor[1:].is_pinned() for tensor in made)


def test_a_device_tensor_is_not_pinned_and_can_not_be():
    x = torch.ones(3, device="hpu")
    assert not x.is_pinned()
    for pin in x.pin_memory, lambda: torch.empty(3, device="hpu", pin_memory=True):
        with pytest.raises(RuntimeError, match="dense CPU"):
            pin()


@pytest.mark.parametrize("way", ["source", "target"])
def test_pinned_memory_that_is_dropped_at_once_stays_until_it_was_used(way, gate):
    x = torch.full((100_000,), 3.0, device="hpu")

    def program():
        if way == "source":
            x.copy_(torch.full((100_000,), 5.0).pin_memory(), non_blocking=True)
        else:
            torch.empty(100_000, pin_memory=True).copy_(x, non_blocking=True)
        return torch.full((100_000,), -1.0).pin_memory()  # would take the block if it were free

    program()
    torch.hpu.synchronize()
    with gate:
        other = program()
        gc.collect()
    assert x.unique().tolist() == [5.0 if way == "source" else 3.0]
    assert other.unique().tolist() == [-1.0]


def test_a_pinned_source_is_read_when_the_copy_runs(gate):
    source = torch.zeros(10).pin_memory()
    source.to("hpu", non_blocking=True)
    with gate:
        y = source.to("hpu", non_blocking=True)
        source.fill_(3.0)  # a race in a real program; here it shows that nothing was copied aside
    assert y.tolist() == [3.0] * 10


@pytest.mark.parametrize("pinned", [False, True])
def test_a_large_source_may_change_after_a_copy_from_pageable_memory_and_a_blocking_one(pinned):
    source = torch.ones(1 << 20, pin_memory=pinned)
    y = source.to("hpu", non_blocking=not pinned)
    source.zero_()
    assert y.sum().item() == 1 << 20


def test_a_copy_to_pinned_memory_does_not_wait(gate):
    x, target = torch.full((10,), 3.0, device="hpu"), torch.zeros(10).pin_memory()
    target.copy_(x, non_blocking=True)
    torch.hpu.synchronize()
    target.zero_()
    with gate:  # as on CUDA: PyTorch chooses a pinned result
        target.copy_(x, non_blocking=True)
        moved = x.to("cpu", non_blocking=True)
        done = torch.hpu.current_stream().record_event()
        assert target.tolist() == [0.0] * 10
        assert moved.is_pinned()
    done.synchronize()
    assert target.tolist() == moved.tolist() == [3.0] * 10


def test_non_blocking_to_pageable_memory_is_complete_when_it_returns():
    x = torch.full((1000,), 3.0, device="hpu")
    for _ in range(20):
        x = x + 1
    assert torch.empty(1000).copy_(x, non_blocking=True).tolist() == [23.0] * 1000


@pytest.mark.parametrize("dtype", [torch.float16, torch.int64, torch.bool, torch.complex64])
def test_pinned_copies_convert_and_stride(dtype):
    source = (torch.arange(12).view(3, 4) % 2).to(dtype).pin_memory()
    y = torch.zeros(4, 3, device="hpu", dtype=torch.float64 if dtype != torch.complex64 else dtype)
    y.copy_(source.t(), non_blocking=True)
    torch.hpu.synchronize()
    assert torch.equal(y.cpu(), source.t().to(y.dtype))


def test_pinned_memory_is_reused():
    x = torch.empty(1 << 16, pin_memory=True)
    address = x.data_ptr()
    del x
    assert torch.empty(1 << 16, pin_memory=True).data_ptr() == address


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_pins_its_batches(workers):
    data = TensorDataset(torch.arange(40.0).view(20, 2), torch.arange(20))
    total = torch.zeros(2, device="hpu")
    for x, index in DataLoader(data, batch_size=5, pin_memory=True, num_workers=workers):
        assert x.is_pinned()
        assert index.is_pinned()
        total += x.to("hpu", non_blocking=True).sum(0)
    assert total.tolist() == [380.0, 400.0]
