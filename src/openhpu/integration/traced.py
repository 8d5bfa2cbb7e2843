"""Stand-ins for functions of torch.hpu that torch.compile does not trace, made of functions that Dynamo knows."""

import contextlib
from contextlib import AbstractContextManager
from typing import Any

import torch

_HPU_TYPE = 15  # c10::DeviceType::HPU


def _device(device: torch.device | str | int | None) -> torch.device:
    if isinstance(device, int):
        return torch.device("hpu", device)
    where = torch.device("hpu" if device is None else device)
    return torch.device("hpu", torch.accelerator.current_device_index()) if where.index is None else where


def current_stream(device: torch.device | str | int | None = None) -> torch.Stream:
    """The same stream."""
    return torch.accelerator.current_stream() if device is None else torch.accelerator.current_stream(_device(device))


def default_stream(device: torch.device | str | int | None = None) -> torch.Stream:
    """The same stream."""
    return torch.Stream(stream_id=0, device_index=_device(device).index, device_type=_HPU_TYPE)


def stream(stream: torch.Stream | None) -> AbstractContextManager[Any]:
    """The stream itself, which is a context manager."""
    return contextlib.nullcontext() if stream is None else stream


def synchronize(device: torch.device | str | int | None = None) -> None:
    """The same wait."""
    torch.accelerator.synchronize(_device(device))
