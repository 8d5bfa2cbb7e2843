"""Steps: where a lazy graph ends and is handed to the device. In eager mode there is nothing to end."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from openhpu import _C
from openhpu.device import devices, lifecycle, mode
from openhpu.device.arguments import _get_device_index
from openhpu.observe import events

_closures: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
# Whether `_closures` holds any. A flag of its own, because compiled code that calls `mark_step` is guarded by it.
_closures_wait = False


def mark_step(device_str: str = "", sync: bool = False) -> None:
    """End the step: hand the recorded graph to the device, without waiting, and run what `add_step_closure` queued.

    `device_str` names the device ("hpu:0"); the current one if empty. With `sync` the device is waited for before the
    closures run. In a function that torch.compile traces the call does nothing, as on a Gaudi, and breaks no graph;
    only where closures are queued it does what it does elsewhere, between two graphs. Raises ValueError or RuntimeError
    for a device that is none.
    """
    if torch.compiler.is_compiling() and not _closures_wait:
        return
    _end_step(device_str, sync)


def _end_step(device_str: str, sync: bool) -> None:
    global _closures_wait
    mode.check()
    if lifecycle.is_initialized():
        if mode.name() == "lazy":
            _C.flush(_get_device_index(device_str or None, optional=True))
        if sync:
            devices.synchronize(device_str or None)
    events.publish("mark_step", {"device": device_str, "sync": sync})
    if _closures:
        queued = list(_closures)
        _closures.clear()
        _closures_wait = False
        for closure, args in queued:
            closure(*args)


def iter_mark_step(device_str: str = "") -> None:
    """End the iteration: as `mark_step`, without closures and without an event. Does nothing in compiled code."""
    if torch.compiler.is_compiling():
        return
    mode.check()
    if lifecycle.is_initialized() and mode.name() == "lazy":
        _C.flush(_get_device_index(device_str or None, optional=True))


def add_step_closure(closure: Callable[..., Any], args: Sequence[Any] = ()) -> None:
    """Run `closure(*args)` at the end of the next `mark_step`; its result is dropped.

    It breaks the graph of a function that torch.compile traces, so that it is an error under `fullgraph=True`.
    """
    global _closures_wait
    _closures.append((closure, tuple(args)))
    _closures_wait = True


def _mark_step_if_lazy(device_str: str = "") -> None:
    if not torch.compiler.is_compiling() and mode.is_lazy():
        mark_step(device_str)
