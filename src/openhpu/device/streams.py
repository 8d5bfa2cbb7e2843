"""Streams: queues of one device, in order with themselves and, through events, with each other.

Events are points in a stream. A script waits for them and measures the time between them.
"""

from typing import Any, Self, cast

import torch

from openhpu import _C
from openhpu.device import lifecycle
from openhpu.device.arguments import DeviceArgument, _get_device_index, asked_index

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "current_stream",
    "default_stream",
    "get_stream_info",
    "is_current_stream_capturing",
    "record_stream",
    "set_stream",
    "stream",
]

_HPU_TYPE = 15  # c10::DeviceType::HPU


class _EventType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        if cls is Event:
            return isinstance(instance, torch.Event) and instance.device.type == "hpu"
        return super().__instancecheck__(instance)


class Event(torch.Event, metaclass=_EventType):
    """A point in a stream of an hpu device.

    `elapsed_time(end)` gives milliseconds between two recorded events that were made with `enable_timing=True`.

    Calling the class makes a plain torch.Event, because torch.Event.elapsed_time and torch.Stream.record_event take
    no instance of a subclass. Every torch.Event of an hpu device counts as an instance.
    """

    def __new__(  # type: ignore[misc]  # see above
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        device: DeviceArgument = None,
    ) -> torch.Event:
        at = torch.device("hpu", asked_index(device))
        kind = torch.Event if cls is Event else cls
        return torch.Event.__new__(kind, at, enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)


class Stream(torch.Stream):
    """A stream of an hpu device.

    `Stream(device=None, priority=0)` makes a new one; `Stream(stream_id=, device_index=, device_type=)` names an
    existing one. Stream 0 is the default stream of its device.
    """

    def __new__(cls, device: DeviceArgument = None, priority: int = 0, **existing: int) -> Self:
        lifecycle.ask()
        if existing:
            existing.setdefault("device_type", _HPU_TYPE)
            return super().__new__(cls, priority=priority, **existing)
        index = _get_device_index(device, optional=True)
        return super().__new__(cls, torch.device("hpu", index), priority=priority)

    def id(self) -> int:
        """The stream's number; 0 is the default stream."""
        return self.stream_id

    hpu_stream = torch.Stream.stream_id  # as a handle

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        """Record `event` (a new one if None) after all that was submitted to this stream; returns it."""
        if event is None:
            event = Event()
        event.record(self)
        return event

    def __repr__(self) -> str:
        return f"<torch.hpu.Stream device={self.device} id={self.stream_id}>"


class StreamContext:
    """Context manager: `stream` is the current one of its device, and its device current. None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream
        self._before: list[torch.Stream] = []  # what to set at the end, in this order

    def __enter__(self) -> None:
        if self.stream is None:
            return
        lifecycle.ask()
        current = torch.accelerator.current_stream()
        self._before = [current]
        if self.stream.device_index != current.device_index:
            self._before.insert(0, torch.accelerator.current_stream(self.stream.device))
        set_stream(self.stream)

    def __exit__(self, *exception: Any) -> None:
        for before in self._before:
            torch.accelerator.set_stream(before)


# The objects of current_stream, of which libraries ask for dozens in a step.
_named: dict[tuple[int, int], Stream] = {}


def stream(stream: torch.Stream | None) -> StreamContext:
    """Context manager: operators inside are submitted to `stream`."""
    return StreamContext(stream)


def set_stream(stream: torch.Stream | None) -> None:
    """Make `stream` the current one of this thread, and its device the current device. None changes nothing."""
    if stream is not None:
        if stream.device.type != "hpu":
            raise ValueError(f"expected a stream of an hpu device, but got one of {stream.device}")
        torch.accelerator.set_stream(stream)


def current_stream(device: DeviceArgument = None) -> Stream:
    """The stream that operators of this thread are submitted to on `device`."""
    lifecycle.ask()
    where = None if device is None else torch.device("hpu", _get_device_index(device, optional=True))
    found = torch.accelerator.current_stream(where)
    key = found.stream_id, found.device_index
    if key not in _named:
        _named[key] = Stream(stream_id=found.stream_id, device_index=found.device_index, device_type=_HPU_TYPE)
    return _named[key]


def default_stream(device: DeviceArgument = None) -> Stream:
    """Stream 0 of `device`."""
    index = _get_device_index(device, optional=True)
    return Stream(stream_id=0, device_index=index, device_type=_HPU_TYPE)


def get_stream_info(stream: torch.Stream) -> tuple[int, int, int]:
    """(stream_id, device_index, device_type) of `stream`, from which `Stream(**)` names it again."""
    return stream.stream_id, stream.device_index, cast(Any, stream).device_type


def record_stream(tensor: torch.Tensor, stream: torch.Stream) -> None:
    """Keep the memory of `tensor` from being reused before the commands of `stream` so far are done."""
    _C.record_stream(tensor, stream)


def is_current_stream_capturing() -> bool:
    """Whether this thread's operators on the current device are being captured."""
    return lifecycle.is_initialized() and _C.is_capturing()
