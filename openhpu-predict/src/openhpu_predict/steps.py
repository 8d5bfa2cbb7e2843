"""The steps of a script while a recorder watches it."""

import contextlib
import gc
from collections.abc import Callable, Iterator

from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from openhpu.device import mode
from openhpu.observe import events
from openhpu_predict.recording import Recorder, Recording

STEPS = 3


def default_mode(recording: Recording) -> str:
    """The mode of a script that ran: graph or eager."""
    return "graph" if mode.is_lazy() or recording.graphs else "eager"


@contextlib.contextmanager
def counted(
    recorder: Recorder, done: Callable[[], None], steps: int = STEPS, ended: Callable[[], None] = lambda: None
) -> Iterator[Recording]:
    """Record, and call `done` after the last step, `ended` after each.

    An optimizer's step ends a step; where there is no optimizer, mark_step does.
    """
    recording = recorder.recording
    optimizers = False

    def after_optimizer(*_: object) -> None:
        nonlocal optimizers
        if recorder.ended:
            return
        if not optimizers:
            optimizers = True
            recording.steps.clear()  # of mark_step, before it was known that there is an optimizer
        recorder.end_step()
        ended()
        if len(recording.steps) >= steps:
            done()

    def marked(_event: events.Event) -> None:
        if optimizers or recorder.ended:
            return
        recording.steps.append(len(recording.nodes))
        ended()
        if len(recording.steps) == steps and not any(issubclass(type(one), Optimizer) for one in gc.get_objects()):
            done()

    subscriptions = [
        events.subscribe("mark_step", marked),
        events.subscribe("graph_recorded", lambda _event: recorder.cut("graph")),
    ]
    handle = register_optimizer_step_post_hook(after_optimizer)
    try:
        with recorder.watching():
            yield recording
    finally:
        handle.remove()
        for one in subscriptions:
            events.unsubscribe(one)
    if not recording.steps:
        recording.warnings.append(
            "no step was seen (an optimizer's step, or mark_step): the whole script counts as one"
        )
    elif len(recording.steps) < steps:
        recording.warnings.append(
            f"the script ended after {len(recording.steps)} of {steps} steps: the last of these is predicted"
        )
