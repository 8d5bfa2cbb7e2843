from datetime import datetime, timedelta

import torch

from openhpu.interface.dispatcher import EventDispatcher, EventId


def test_fallbacks_through_gaudis_dispatcher(hpu):
    found = []
    dispatcher = EventDispatcher.instance()
    assert dispatcher is EventDispatcher.instance()
    handle = dispatcher.subscribe(EventId.CPU_FALLBACK, lambda when, params: found.append((when, params)))
    torch.linalg.svdvals(torch.eye(2, device="hpu"))
    dispatcher.unsubscribe(handle)
    when, params = found[0]
    assert abs(datetime.now() - when) < timedelta(seconds=60)
    assert "op_name" in dict(params)
    assert all(isinstance(value, str) for _, value in params)


def test_an_event_of_ones_own_keeps_its_time(hpu):
    found = []
    dispatcher = EventDispatcher.instance()
    handle = dispatcher.subscribe(EventId.CUSTOM_EVENT, lambda when, params: found.append((when, params)))
    moment = datetime.now() - timedelta(hours=1)
    dispatcher.publish(EventId.CUSTOM_EVENT, [("step", 3)], moment)
    dispatcher.publish(EventId.CUSTOM_EVENT)
    dispatcher.unsubscribe(handle)
    assert found[0][1] == [("step", "3")]
    assert abs(found[0][0] - moment) < timedelta(seconds=1)
    assert found[1][1] == []


def test_process_events(script):
    code = """
        import habana_frameworks.torch as ht, torch
        from habana_frameworks.torch.utils.event_dispatcher import EventDispatcher, EventId
        for kind in (EventId.DEVICE_ACQUIRED, EventId.MARK_STEP, EventId.PROCESS_EXIT):
            EventDispatcher.instance().subscribe(kind, lambda when, params, kind=kind: print(kind.name, flush=True))
        torch.ones(1, device="hpu")
        ht.core.mark_step()
        """
    assert script(code).out.splitlines() == ["DEVICE_ACQUIRED", "MARK_STEP", "PROCESS_EXIT"]
