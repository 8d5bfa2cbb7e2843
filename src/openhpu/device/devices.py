"""Devices: their number, the current one, their properties."""

from dataclasses import dataclass
from typing import Any

import torch

from openhpu import _C, settings
from openhpu.device import lifecycle
from openhpu.device.arguments import DeviceArgument, _get_device_index, asked_index, described_index

__all__ = [
    "DeviceProperties",
    "can_device_access_peer",
    "current_device",
    "device",
    "device_count",
    "device_of",
    "get_amp_supported_dtype",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_gencode_flags",
    "is_available",
    "is_bf16_supported",
    "is_fp16_supported",
    "set_device",
    "synchronize",
]


# What differs; the type is the value of synDeviceType.
_GENERATIONS = {
    "gaudi": {"device_type": 1, "sram_size": 24 << 20, "tpc_count": 8},
    "gaudi2": {"device_type": 4, "sram_size": 48 << 20, "tpc_count": 24},
    "gaudi3": {"device_type": 5, "sram_size": 96 << 20, "tpc_count": 64},
}


def is_available() -> bool:
    """Whether there is an hpu device: always."""
    return _C.device_count() > 0


def device_count() -> int:
    """The number of devices, as libraries use it that take all there are. Does not open one.

    Unless the environment names modules or their number, it is not above the number of cores. The indices of a Gaudi
    node, 0 to 7, can be used all the same.
    """
    try:
        return lifecycle.configure().device_count
    except settings.SettingError:  # a launcher's process without a module: a script's that uses none may ask
        return _C.device_count()


def current_device() -> int:
    """The index of the current device. Does not open it."""
    lifecycle.configure_if_possible()
    return _C.current_device()


def set_device(device: DeviceArgument) -> None:
    """Make `device` the current one of this thread. RuntimeError for an index that does not exist."""
    _C.set_device(_get_device_index(device, optional=True))


class device:
    """Context manager: `device` is current inside. None or a negative index changes nothing."""

    def __init__(self, device: DeviceArgument) -> None:
        negative = isinstance(device, int) and device < 0
        self.idx = -1 if device is None or negative else _get_device_index(device, optional=True)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _C.exchange_device(self.idx)

    def __exit__(self, *exception: Any) -> None:
        self.idx = _C.exchange_device(self.prev_idx)


class device_of(device):
    """Context manager: the device of a tensor or storage is current inside, if that is an hpu."""

    def __init__(self, obj: Any) -> None:
        where = obj.device
        super().__init__(where if where.type == "hpu" else None)


def synchronize(device: DeviceArgument = None) -> None:
    """Wait until everything submitted to `device` is done; errors of its operators surface here.

    Files of graphs that the environment asks for (GRAPH_VISUALIZATION) are written then, too.
    """
    _C.synchronize(asked_index(device))
    if _C.has_compile_requests():
        from openhpu.compiler.client import dumps

        dumps.finish()


def get_device_name(device: DeviceArgument = None) -> str:
    """GAUDI, GAUDI2 or GAUDI3."""
    described_index(device)
    return str(settings.get("OPENHPU_GENERATION")).upper()


def get_device_capability(device: DeviceArgument = None) -> str:
    """The version of the driver, as on Gaudi, a string."""
    from openhpu.observe.smi.facts import DRIVER_VERSION

    described_index(device)
    return DRIVER_VERSION


@dataclass(frozen=True)
class DeviceProperties:
    """The properties of a device. `str()` gives the text that Gaudi's call returns. Sizes are in bytes."""

    name: str
    index: int
    module: int
    total_memory: int
    sram_size: int
    tpc_count: int
    device_type: int

    def __str__(self) -> str:
        mask = (1 << self.tpc_count) - 1
        return (
            f"(sramBaseAddress=0, dramBaseAddress=0, sramSize={self.sram_size}, dramSize={self.total_memory}, "
            f"tpcEnabledMask={mask}, dramEnabled=1, fd=-1, device_id={self.module}, device_type={self.device_type})"
        )


def get_device_properties(device: DeviceArgument = None) -> DeviceProperties:
    """The properties of `device`. Does not open it: until it is open, `module` is the first one that it would try."""
    index = described_index(device)
    name = str(settings.get("OPENHPU_GENERATION"))
    return DeviceProperties(
        name=name.upper(),
        index=index,
        module=_C.module_of(index),  # of one that is not open: the first that it would try
        total_memory=_C.capacity_of(index),
        **_GENERATIONS[name],
    )


def can_device_access_peer(device: DeviceArgument, peer_device: DeviceArgument) -> bool:
    """Whether one device can read the other's memory: every two different ones can."""
    return _get_device_index(device, optional=True) != _get_device_index(peer_device, optional=True)


def get_arch_list() -> list[str]:
    """The generations that this process runs operators for: the chosen one."""
    return [str(settings.get("OPENHPU_GENERATION"))]


def get_gencode_flags() -> str:
    """Empty: no code is generated for an instruction set of the device."""
    return ""


def is_bf16_supported() -> bool:
    """True: every generation has bfloat16."""
    return True


def is_fp16_supported() -> bool:
    """Whether the chosen generation has float16: from Gaudi 2 on."""
    return bool(settings.get("OPENHPU_GENERATION") != "gaudi")


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that torch.autocast("hpu") can cast to."""
    return [torch.bfloat16, torch.float16] if is_fp16_supported() else [torch.bfloat16]
