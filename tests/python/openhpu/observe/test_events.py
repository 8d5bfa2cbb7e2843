import time

import pytest
import torch

import openhpu
from openhpu import events


@pytest.fixture
def collected(hpu):
    """Events of all kinds during the test."""
    found = []
    subscription = events.subscribe(None, found.append)
    yield found
    events.unsubscribe(subscription)


def test_copies_are_events_with_bytes_and_time(collected):
    before = time.monotonic_ns()
    torch.ones(4, device="hpu").cpu()
    kinds = {event.kind: event for event in collected}
    assert kinds["copy"].params["bytes"] == 16
    assert kinds["copy"].params["kind"] == "d2h"
    assert before <= kinds["copy"].time_ns <= time.monotonic_ns()


def test_a_fallback_is_an_event_with_its_operator(collected):
    torch.linalg.svdvals(torch.eye(3, device="hpu"))
    fallbacks = [event for event in collected if event.kind == "cpu_fallback"]
    assert fallbacks
    assert all({"op", "dtype", "count"} <= set(event.params) for event in fallbacks)


def test_only_the_subscribed_kind_and_only_while_subscribed(hpu):
    found = []
    subscription = events.subscribe("blocking_read", found.append)
    torch.ones(1, device="hpu").item()
    assert {event.kind for event in found} == {"blocking_read"}
    events.unsubscribe(subscription)
    events.unsubscribe(subscription)
    number = len(found)
    torch.ones(1, device="hpu").item()
    assert len(found) == number


def test_the_asked_kinds_only_while_somebody_listens_to_its_kinds(hpu):
    assert not events._asked_kinds
    mine = events.subscribe("mark_step", lambda event: None)
    assert not events._asked_kinds
    copies = events.subscribe("copy", lambda event: None)
    assert events._asked_kinds
    events.unsubscribe(copies)
    assert not events._asked_kinds
    events.unsubscribe(mine)


def test_a_callback_that_raises_stops_nobody(hpu, capsys):
    found = []

    def bad(event):
        raise ValueError("a bad callback")

    first = events.subscribe("copy", bad)
    second = events.subscribe("copy", found.append)
    assert torch.ones(2, device="hpu").tolist() == [1, 1]
    events.unsubscribe(first)
    events.unsubscribe(second)
    assert found
    assert "a bad callback" in capsys.readouterr().err


def test_publishing_from_python(collected):
    events.publish("own", {"n": 1}, site=("script.py", 3))
    assert (collected[-1].kind, collected[-1].params, collected[-1].site) == ("own", {"n": 1}, ("script.py", 3))


def test_counters(hpu):
    openhpu.reset_counters()
    x = torch.ones(4, device="hpu")
    (x + x).cpu()
    counters = openhpu.counters()
    assert counters["bytes_d2h"] == 16
    assert counters["copies_d2h"] == 1
    openhpu.reset_counters()
    assert not any(openhpu.counters().values())
    assert events.fallback_ops() == {}


def test_an_unknown_name_of_the_package(hpu):
    with pytest.raises(AttributeError, match="no_such"):
        _ = openhpu.no_such


def test_a_subscription_before_torch_is_loaded(script):
    """It loads torch, and so the device, which subscribes as well."""
    script(
        """
        from openhpu import events
        events.subscribe("cpu_fallback", lambda event: print(event.params["op"]))
        import torch
        torch.linalg.svdvals(torch.ones(2, 2, device="hpu"))
        """,
        TORCH_DEVICE_BACKEND_AUTOLOAD="1",
    )
