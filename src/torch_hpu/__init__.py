"""Deprecated: use torch.hpu or habana_frameworks.torch.hpu."""

import warnings

import habana_frameworks.torch  # noqa: F401  (loads the device)
from openhpu.interface import hpu as _hpu

__all__ = ["device_count", "get_device_name", "is_available"]


def _warn(name: str) -> None:
    warnings.warn(f"torch_hpu.{name} is deprecated; use torch.hpu.{name}", FutureWarning, stacklevel=3)


def is_available() -> bool:
    """Deprecated: use torch.hpu.is_available."""
    _warn("is_available")
    return _hpu.is_available()


def device_count() -> int:
    """Deprecated: use torch.hpu.device_count."""
    _warn("device_count")
    return _hpu.device_count()


def get_device_name() -> str:
    """Deprecated: use torch.hpu.get_device_name."""
    _warn("get_device_name")
    return _hpu.get_device_name()
