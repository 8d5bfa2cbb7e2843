import torch

from openhpu import events


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


def test_a_subscription_before_torch_is_loaded(script):
    """It loads torch, and so the device, which subscribes as well."""
    code = """
        from openhpu import events
        events.subscribe("cpu_fallback", lambda event: print(event.params["op"]))
        import torch
        torch.linalg.svdvals(torch.ones(2, 2, device="hpu"))
        """
    script(code, TORCH_DEVICE_BACKEND_AUTOLOAD="1")
