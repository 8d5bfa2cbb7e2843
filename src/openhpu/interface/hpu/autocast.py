"""Gaudi's names for autocast on hpu."""

import torch

__all__ = ["get_autocast_hpu_dtype", "is_autocast_hpu_enabled", "set_autocast_hpu_dtype", "set_autocast_hpu_enabled"]


def is_autocast_hpu_enabled() -> bool:
    """Whether torch.autocast("hpu") is on in this thread."""
    return torch.is_autocast_enabled("hpu")


def set_autocast_hpu_enabled(enabled: bool) -> None:
    """Turn autocast for hpu on or off in this thread."""
    torch.set_autocast_enabled("hpu", enabled)


def get_autocast_hpu_dtype() -> torch.dtype:
    """The dtype that autocast casts to on hpu; bfloat16 by default."""
    return torch.get_autocast_dtype("hpu")


def set_autocast_hpu_dtype(dtype: torch.dtype) -> None:
    """Set the dtype that autocast casts to on hpu."""
    torch.set_autocast_dtype("hpu", dtype)
