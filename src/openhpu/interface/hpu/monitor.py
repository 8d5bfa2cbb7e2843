"""Watching the device at work: its utilization, and operators that make the host wait."""

import warnings

from openhpu.device.arguments import DeviceArgument, asked_index
from openhpu.observe import events
from openhpu.observe.smi import publisher

__all__ = ["get_sync_debug_mode", "set_sync_debug_mode", "utilization"]

_SYNC_MODES = {"default": 0, "warn": 1}
_sync_subscriptions: list[events.Subscription] = []  # none in the mode "default"


def utilization(device: DeviceArgument = None) -> int:
    """The share of time, in percent, that `device` ran operators in the last half second, as hl-smi shows it."""
    return publisher.utilization(asked_index(device))


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Warn at each operation that makes the host wait for values or sizes: "default"/0 never, "warn"/1 always.

    ValueError for another mode; "error" is not supported, because the operation has begun when it is noticed.
    """
    mode = _SYNC_MODES.get(debug_mode, -1) if isinstance(debug_mode, str) else debug_mode
    if mode not in _SYNC_MODES.values():
        raise ValueError(f"the synchronisation debug mode must be 'default' (0) or 'warn' (1), but got {debug_mode!r}")
    while _sync_subscriptions:
        events.unsubscribe(_sync_subscriptions.pop())
    if mode == _SYNC_MODES["warn"]:
        _sync_subscriptions.extend(events.subscribe(kind, _warn) for kind in ("blocking_read", "wait"))


def get_sync_debug_mode() -> int:
    """The mode that `set_sync_debug_mode` set, as a number."""
    return int(bool(_sync_subscriptions))


def _warn(event: events.Event) -> None:
    if event.params.get("kind", "shape") != "shape":
        return  # a Gaudi does not wait here
    file, line = event.site or ("", 0)
    text = f"the host waits for the hpu device in {event.params.get('op', 'an operation')}"
    warnings.warn_explicit(text, UserWarning, file or "<unknown>", line, registry={})
