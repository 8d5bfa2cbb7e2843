"""The few questions that a recording asks of a device: hpu with Gaudi's packages, or PyTorch's own CPU."""

from typing import Any

import torch


def chosen(name: str) -> str:
    """hpu where there is one, else cpu; or the name that was given."""
    if name != "auto":
        return name
    try:
        import habana_frameworks.torch  # noqa: F401
    except ImportError:
        return "cpu"
    return "hpu"


def prepared(name: str) -> str:
    """The device, whose package is imported. Raises ImportError or RuntimeError if it is missing."""
    if name == "hpu":
        import habana_frameworks.torch  # noqa: F401  # in lazy mode nothing else loads the device
    return name


def synchronize(name: str) -> None:
    """Wait for the device. In lazy mode this runs what was recorded."""
    if name != "cpu":
        module: Any = getattr(torch, name)
        module.synchronize()


def mark_step(name: str) -> None:
    """In lazy mode: run what was recorded. Otherwise nothing."""
    if name == "hpu":
        import habana_frameworks.torch.core as htcore

        htcore.mark_step()


def captures(name: str) -> bool:
    """Whether a graph of the device is being captured, in which no value can be read."""
    asked = getattr(getattr(torch, name, None), "is_current_stream_capturing", None)
    if name == "cpu" or asked is None:
        return False
    initialized = getattr(getattr(torch, name), "is_initialized", None)
    return bool((initialized is None or initialized()) and asked())
