"""Events: points in a stream, to wait for and to take times between."""

from __future__ import annotations

import torch

from openhpu.hpu import _lifecycle
from openhpu.hpu._utils import DeviceArgument, _get_device_index


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
        _lifecycle._lazy_init()
        where = torch.device("hpu", _get_device_index(device, optional=True))
        kind = torch.Event if cls is Event else cls
        return torch.Event.__new__(
            kind, device=where, enable_timing=enable_timing, blocking=blocking, interprocess=interprocess
        )
