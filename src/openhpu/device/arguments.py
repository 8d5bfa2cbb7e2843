"""Device arguments."""

from typing import Any, TypeAlias

import torch

from openhpu import _C
from openhpu.device import lifecycle
from openhpu.observe import differences

DeviceArgument: TypeAlias = torch.device | str | int | None


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The index that `device` means: an int, "hpu:1", torch.device("hpu", 1), or None for the current device.

    None and an hpu device without an index need `optional`. With `allow_cpu` the cpu gives -1. ValueError for
    another kind of device, TypeError for another kind of object, RuntimeError for an index that does not exist.
    """
    index: int | None
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if allow_cpu and device.type == "cpu":
            return -1
        if device.type != "hpu":
            raise ValueError(f"expected an hpu device, but got: {device}")
        index = device.index
    elif device is None or (isinstance(device, int) and not isinstance(device, bool)):
        index = device
    else:
        raise TypeError(f"expected torch.device, str, int or None as a device, but got {type(device).__name__}")
    if index is None:
        if not optional:
            raise ValueError(f"expected an hpu device with an index, such as hpu:0, but got: {device}")
        return _C.current_device()
    check_index(index)
    return index


def asked_index(device: Any) -> int:
    """The index that `device` means, for a question about it."""
    lifecycle.ask()
    return _get_device_index(device, optional=True)


def described_index(device: Any) -> int:
    """The index that `device` means, for a description of the device. A forked child may ask for that, too."""
    if differences.as_gaudi("question"):
        lifecycle.ask()
    return _get_device_index(device, optional=True)


def check_index(index: int) -> None:
    """RuntimeError unless a device with this index exists."""
    lifecycle.configure_if_possible()
    count = _C.device_count()
    if not 0 <= index < count:
        valid = "0" if count == 1 else f"0 to {count - 1}"
        raise RuntimeError(
            f"HPU device index {index} is out of range: this process has {count} device{'s' if count > 1 else ''}, "
            f"valid indices: {valid}. HABANA_VISIBLE_MODULES or OPENHPU_DEVICE_COUNT set their number."
        )
