"""Events: points in a stream, to wait for and to take times between."""

from __future__ import annotations

from typing import Any

import torch

from openhpu.hpu import _lifecycle


class Event(torch.Event):
    """A point in a stream of an hpu device.

    `elapsed_time(end)` gives milliseconds between two recorded events that were made with `enable_timing=True`.
    """

    def __new__(
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        device: Any = "hpu",
    ) -> Event:
        _lifecycle._lazy_init()
        return super().__new__(
            cls, device=device, enable_timing=enable_timing, blocking=blocking, interprocess=interprocess
        )

    def __repr__(self) -> str:
        return f"<torch.hpu.Event at {id(self):#x}>"
