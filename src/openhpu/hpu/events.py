"""Events: points in a stream, to wait for and to take times between."""

from __future__ import annotations

import torch

from openhpu.hpu import _lifecycle
from openhpu.hpu._utils import DeviceArgument, _get_device_index


class Event(torch.Event):
    """A point in a stream of an hpu device.

    `elapsed_time(end)` gives milliseconds between two recorded events that were made with `enable_timing=True`.
    """

    def __new__(
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        device: DeviceArgument = None,
    ) -> Event:
        _lifecycle._lazy_init()
        where = torch.device("hpu", _get_device_index(device, optional=True))
        return super().__new__(
            cls, device=where, enable_timing=enable_timing, blocking=blocking, interprocess=interprocess
        )

    def __repr__(self) -> str:
        return f"<torch.hpu.Event at {id(self):#x}>"
