"""Deprecated: use torch.hpu or habana_frameworks.torch.hpu."""

import habana_frameworks.torch  # noqa: F401  (loads the device)
from openhpu.interface import hpu as _hpu
from openhpu.interface.names import deprecated as _deprecated

__all__ = ["device_count", "get_device_name", "is_available"]

is_available = _deprecated("torch_hpu.is_available", "torch.hpu.is_available")(_hpu.is_available)
device_count = _deprecated("torch_hpu.device_count", "torch.hpu.device_count")(_hpu.device_count)
get_device_name = _deprecated("torch_hpu.get_device_name", "torch.hpu.get_device_name")(_hpu.get_device_name)
