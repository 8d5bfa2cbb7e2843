"""Eager mode is asynchronous: the host does not wait for a kernel whose outputs' metadata it knows."""

import threading

import pytest
import torch

from .support import MODELS, make, train_step


def rows(*shape, dtype=torch.float32):
    """Numbers that depend on their place."""
    return (torch.arange(torch.Size(shape).numel()) % 13 - 6).view(shape).to("hpu", dtype)


def test_first_sight_waits_and_second_sight_does_not(counted):
    x, y = rows(3, 17), rows(3, 17)
    with counted(ops_waited=1, ops_issued=0):
        torch.hypot(x, y)
    with counted(ops_waited=0, ops_issued=1):
        torch.hypot(x, y)


@pytest.mark.parametrize("name", MODELS)
def test_a_training_step_is_submitted_without_waiting(name, gate, counted):
    known = make(name, steps=3)
    with gate, counted(ops_waited=0, ops_fallback=0, blocking_reads=0, outputs_copied=0) as step:
        loss = train_step(*known)
    assert step["ops_issued"] > 20
    assert loss.isfinite().item()


TAKEN = {
    "number": (lambda x, number: x + number, torch.tensor(2.0)),
    "pageable source of a copy": (lambda x, source: source.to(x.device, non_blocking=True), torch.arange(4.0)),
    "index": (lambda x, index: x[index], torch.tensor([1, 2])),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_on_the_host_is_taken_at_submission(name, gate):
    program, given = TAKEN[name]
    x = rows(13, 4)
    expected = program(rows(13, 4).cpu(), given)
    program(x, given + 1)
    torch.hpu.synchronize()
    given = given.clone()
    with gate:
        y = program(x, given)
        given.zero_()
    assert torch.equal(y.cpu(), expected)


def test_blocking_reads_are_counted(counted):
    x = rows(4)
    with counted(blocking_reads=3):
        x.sum().item()
        x.cpu()
        x.tolist()


def test_a_first_sight_with_the_worker_busy_waits_until_it_is_free(gate):
    x = rows(4, 21)
    torch.hpu.synchronize()
    with pytest.raises(AssertionError, match="the host waited"):
        gate.patience = 0.2
        with gate:
            # Used nowhere else: lazy mode only rehearses an operator that it has seen with other sizes.
            torch.nextafter(x, x)


@pytest.mark.parametrize("size", [1_000, 30_000, 100_000, 300_000, 1_000_000])
def test_a_result_does_not_depend_on_what_the_host_does_meanwhile(size, gate):
    # A kernel's number of threads decides how a reduction is split, so it must not follow the host's activity.
    x, done = torch.randn(size, device="hpu"), torch.Event(device="hpu")
    x.sum()
    torch.hpu.synchronize()
    with gate:
        busy = x.sum()
        done.record()
    while not done.query():
        pass  # the host never sleeps
    other = threading.Timer(0.1, gate.open)
    with gate:
        asleep = x.sum()
        other.start()
        torch.hpu.synchronize()
    other.join()
    assert busy.item() == asleep.item()


@pytest.mark.parametrize("size", [36_000, 60_000, 100_000, 300_000])
def test_first_and_second_sight_give_the_same_bits(size):
    x = torch.randn(size, device="hpu")
    assert x.sum().item() == x.sum().item()
    x = x[: size // 100 * 100].view(-1, 100)
    first, second = x.t() @ x, x.t() @ x
    assert torch.equal(first, second)
