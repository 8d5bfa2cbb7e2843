"""Dynamo's interface of the device: which functions of torch.hpu it calls, and inlines in compiled code."""

from __future__ import annotations

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

        @staticmethod
        def get_device_properties(device: Any = None) -> Any:
            """The device's properties."""
            return hpu.get_device_properties(device)

    current_device = staticmethod(hpu.current_device)
    set_device = staticmethod(hpu.set_device)
    device_count = staticmethod(hpu.device_count)
    stream = staticmethod(hpu.stream)
    current_stream = staticmethod(hpu.current_stream)
    set_stream = staticmethod(hpu.set_stream)
    synchronize = staticmethod(hpu.synchronize)
    get_device_properties = staticmethod(hpu.get_device_properties)  # type: ignore[assignment]
    is_available = staticmethod(hpu.is_available)
    memory_allocated = staticmethod(hpu.memory_allocated)

    @staticmethod
    def exchange_device(device: int) -> int:
        """Make `device` the current one; returns the one before."""
        return _C.exchange_device(device)

    @staticmethod
    def maybe_exchange_device(device: int) -> int:
        """The same; a negative number changes nothing."""
        return _C.exchange_device(device)

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

    @staticmethod
    def is_triton_capable(device: Any = None) -> bool:
        """Never."""
        return False


register_interface_for_device("hpu", HpuInterface)
register_interface_for_device("hpu:0", HpuInterface)
