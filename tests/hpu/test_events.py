"""The event source of the project: what happened, when, and on which line."""

import time

import pytest
import torch

import openhpu
from openhpu import events

from .support import heard, listening


@pytest.fixture
def seen():
    """Events of every kind, as they happen."""
    with heard(None) as found:
        yield found


def test_copies_are_reported_with_kind_and_size_and_counted_until_a_reset(seen):
    openhpu.reset_counters()
    torch.ones(10).to("hpu").cpu()
    copies = [(event.params["kind"], event.params["bytes"]) for event in seen if event.kind == "copy"]
    assert copies == [("h2d", 40), ("d2h", 40)]
    counters = openhpu.counters()
    assert (counters["bytes_d2h"], counters["copies_d2h"]) == (40, 1)
    openhpu.reset_counters()
    assert set(openhpu.counters().values()) == {0}


def test_a_fallback_is_reported_with_its_operator(seen):
    torch.ones(3, dtype=torch.complex64, device="hpu") - 1
    (event,) = [event for event in seen if event.kind == "cpu_fallback" and "sub" in event.params["op"]]
    assert event.params["dtype"] == "ComplexFloat"
    assert "count" in event.params
    openhpu.reset_counters()
    assert events.fallback_ops() == {}


def test_times_rise(seen):
    before = time.monotonic_ns()
    for _ in range(3):
        torch.ones(2, device="hpu").cpu()
    times = [before, *(event.time_ns for event in seen), time.monotonic_ns()]
    assert times == sorted(times)
    assert len(times) >= 5


def test_a_listener_that_raises_does_not_change_the_program_or_the_next_listener(capsys):
    def broken(event):
        raise ValueError("listener")

    found = []
    with listening(("copy", broken), ("copy", found.append)):
        assert torch.ones(2).to("hpu").tolist() == [1.0, 1.0]
    assert found
    assert "listener" in capsys.readouterr().err


def test_a_listener_may_use_the_device():
    found = []
    with listening(("blocking_read", lambda event: found.append(torch.ones(2, device="hpu") + 1))):
        torch.ones(3, device="hpu").sum().item()
    assert found[0].tolist() == [2.0, 2.0]
