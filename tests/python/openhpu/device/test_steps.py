from openhpu import events
from openhpu.device import steps


def test_closures_run_once_at_the_next_step(hpu):
    ran = []
    steps.add_step_closure(ran.append, (1,))
    steps.add_step_closure(ran.append, args=[2])
    assert ran == []
    steps.mark_step()
    steps.mark_step("hpu:0", sync=True)
    assert ran == [1, 2]


def test_a_step_is_an_event(hpu):
    found = []
    subscription = events.subscribe("mark_step", found.append)
    steps.mark_step(sync=True)
    steps._mark_step_if_lazy()
    steps.iter_mark_step()
    events.unsubscribe(subscription)
    assert [event.params["sync"] for event in found] == [True]
