"""The base of all metrics."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

from openhpu.observe import events

Stats: TypeAlias = list[tuple[str, Any]]


class Metric(ABC):
    """A named set of numbers, which counts between `start` and `stop`.

    A subclass names the kinds of events it counts and takes them in `_count`.
    """

    NAME = ""
    KINDS: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[Metric], None]] = []
        self._subscriptions: list[events.Subscription] = []
        self._running = False
        self._clear()

    def name(self) -> str:
        """The metric's name."""
        return self.NAME

    def stats(self) -> Stats:
        """The numbers, as pairs of tag and value."""
        with self._lock:
            self._fold()
            return self._rows()

    @abstractmethod
    def _rows(self) -> Stats:
        """The numbers as they are; the caller holds the lock."""

    def _fold(self) -> None:  # noqa: B027  # most count by themselves
        """Take what others have counted since the last time; the caller holds the lock."""

    @abstractmethod
    def _clear(self) -> None:
        """Set all numbers to zero."""

    @abstractmethod
    def _count(self, event: events.Event) -> None:
        """Take one event; the caller holds the lock."""

    def reset(self) -> None:
        """Set all numbers to zero. A running metric goes on counting."""
        with self._lock:
            self._clear()

    def forget(self) -> None:
        """Set all numbers to zero in a forked child, where a thread of the parent may have held the lock."""
        self._lock = threading.Lock()
        self._clear()

    def start(self) -> None:
        """Count from now on. Numbers counted before are kept."""
        if not self._running:
            self._fold()
            self._running = True
            self._listen()

    def stop(self) -> None:
        """Stop counting; the numbers stay as they are."""
        with self._lock:
            self._fold()
            self._running = False
        self._listen()

    def on_metric_change(self, callback: Callable[["Metric"], None]) -> None:
        """Call `callback(metric)` after every change while the metric is running."""
        self._callbacks.append(callback)
        self._listen()

    def _kinds(self) -> tuple[str, ...]:
        return self.KINDS

    def _listen(self) -> None:
        """To these kinds of events, as long as it runs."""
        for subscription in self._subscriptions:
            events.unsubscribe(subscription)
        self._subscriptions = [events.subscribe(k, self._on_event) for k in self._kinds() if self._running]

    def _on_event(self, event: events.Event) -> None:
        with self._lock:
            self._count(event)
        for callback in tuple(self._callbacks):
            callback(self)
