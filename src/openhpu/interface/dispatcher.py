"""Gaudi's event dispatcher, as a face over `openhpu.observe.events`."""

import functools
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, TypeAlias

from openhpu.observe import events

Params: TypeAlias = list[tuple[str, str]]


class EventId(Enum):
    """The events for subscription; the values are the kinds of `openhpu.observe.events`.

    MEMORY_DEFRAGMENTATION does not happen: the pool joins free blocks as they are freed.
    """

    GRAPH_COMPILATION = "graph_compilation"
    CPU_FALLBACK = "cpu_fallback"
    CACHE_HIT = "cache_hit"
    CACHE_MISS = "cache_miss"
    MEMORY_DEFRAGMENTATION = "memory_defragmentation"
    MARK_STEP = "mark_step"
    PROCESS_EXIT = "process_exit"
    DEVICE_ACQUIRED = "device_acquired"
    CUSTOM_EVENT = "custom_event"


# Gaudi's names of parameters, where they differ.
_PARAM_NAMES = {EventId.CPU_FALLBACK: {"op": "op_name"}}


class EventDispatcher:
    """Subscriptions and events of this process. There is one, `EventDispatcher.instance()`."""

    @classmethod
    @functools.cache
    def instance(cls) -> "EventDispatcher":
        """The dispatcher."""
        return cls()

    def subscribe(self, event_id: EventId, callback: Callable[[datetime, Params], None]) -> events.Subscription:
        """Call `callback(timestamp, [(name, value), ...])` for each event, until `unsubscribe` of the handle."""
        event_id = EventId(event_id)
        names = _PARAM_NAMES.get(event_id, {})

        def forward(event: events.Event) -> None:
            params = [(names.get(name, name), str(value)) for name, value in event.params.items()]
            callback(_as_datetime(event.time_ns), params)

        return events.subscribe(event_id.value, forward)

    def unsubscribe(self, handle: events.Subscription) -> None:
        """Stop a subscription."""
        events.unsubscribe(handle)

    def publish(
        self, event_id: EventId, params: Sequence[tuple[str, Any]] = (), timestamp: datetime | None = None
    ) -> None:
        """Report an event to those who subscribed; `timestamp` is now if None."""
        events.publish(EventId(event_id).value, dict(params), time_ns=_as_monotonic(timestamp))


def _as_datetime(time_ns: int) -> datetime:
    """The local time of a time of time.monotonic_ns()."""
    return datetime.now() - timedelta(microseconds=(time.monotonic_ns() - time_ns) / 1000)


def _as_monotonic(timestamp: datetime | None) -> int | None:
    if timestamp is None:
        return None
    age = datetime.now(timestamp.tzinfo) - timestamp
    return time.monotonic_ns() - int(age / timedelta(microseconds=1) * 1000)
