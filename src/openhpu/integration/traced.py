"""Stand-ins for functions of torch.hpu in traced code, for functions that torch.compile does not trace."""

from __future__ import annotations

import torch


def current_stream(device: torch.device | str | int | None = None) -> torch.Stream:
    """The same stream, by the function that Dynamo knows."""
    if device is None:
        return torch.accelerator.current_stream()
    if isinstance(device, int):
        return torch.accelerator.current_stream(torch.device("hpu", device))
    return torch.accelerator.current_stream(torch.device(device))
