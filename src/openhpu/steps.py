"""Steps: where a lazy graph would end. Operators of this version run as they are issued, so that no graph waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from openhpu import events, hpu, mode

_closures: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []


def mark_step(device_str: str = "", sync: bool = False) -> None:
    """End the step: run what `add_step_closure` queued; with `sync` wait for the device first.

    `device_str` names the device ("hpu:0"); the current one if empty. Raises RuntimeError when PT_HPU_LAZY_MODE
    was changed too late.
    """
    mode.check()
    if sync and hpu.is_initialized():
        hpu.synchronize(device_str or None)
    events.publish("mark_step", {"device": device_str, "sync": sync})
    if _closures:
        queued = list(_closures)
        _closures.clear()
        for closure, args in queued:
            closure(*args)


def iter_mark_step(device_str: str = "") -> None:
    """Start a new iteration for the statistics of graphs; without graphs there is nothing to do."""
    mode.check()


def add_step_closure(closure: Callable[..., Any], args: Sequence[Any] = ()) -> None:
    """Run `closure(*args)` at the end of the next `mark_step`; its result is dropped."""
    _closures.append((closure, tuple(args)))


def _mark_step_if_lazy(device_str: str = "") -> None:
    if mode.is_lazy():
        mark_step(device_str)
