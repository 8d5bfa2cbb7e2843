"""Dynamo's interface of the device: which functions of torch.hpu it calls, and inlines in compiled code."""

from typing import Any

import torch
from torch._dynamo.device_interface import DeviceInterface, register_interface_for_device

from openhpu import _C
from openhpu.interface import hpu


class HpuInterface(DeviceInterface):
    """The functions of torch.hpu, under the names that Dynamo uses."""

    device = torch.hpu.device  # type: ignore[attr-defined,assignment]
    Event = hpu.Event  # type: ignore[assignment]
    Stream = hpu.Stream  # type: ignore[assignment]

    class Worker:
        """Inductor's compile workers have no device; nothing compiles for hpu there."""

        @staticmethod
        def set_device(device: int) -> None:
            """Nothing to set."""

        @staticmethod
        def current_device() -> int:
            """The one device that a worker could mean."""
            return 0

        get_device_properties = staticmethod(hpu.get_device_properties)

    exchange_device = staticmethod(_C.exchange_device)  # type: ignore[assignment]
    maybe_exchange_device = staticmethod(_C.exchange_device)  # type: ignore[assignment]  # of -1: nothing

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        """The number of the current stream."""
        return hpu.current_stream(device_idx).stream_id

    @staticmethod
    def get_compute_capability(device: Any = None) -> str:
        """Nothing that code would depend on."""
        return ""

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        """Always."""
        return True


for _name in (
    "current_device",
    "set_device",
    "device_count",
    "stream",
    "current_stream",
    "set_stream",
    "synchronize",
    "is_available",
    "memory_allocated",
):
    setattr(HpuInterface, _name, staticmethod(getattr(hpu, _name)))
register_interface_for_device("hpu", HpuInterface)
register_interface_for_device("hpu:0", HpuInterface)
