"""Loading tensors that were saved from an hpu device."""

import re
from typing import Any

import torch

from openhpu.device.arguments import _get_device_index

# Before PyTorch's own for hpu, which refuses an index from device_count() on. Where a process has more indices than
# cores, what it saved from the last ones has to be loaded again.
_PRIORITY = 19


def install() -> None:
    """Let torch.load put tensors on every index that exists."""
    torch.serialization.register_package(_PRIORITY, lambda storage: None, _restore)  # it names storages well itself


def _restore(storage: Any, location: str) -> Any:
    if re.fullmatch(r"hpu(:\d+)?", location) is None:
        return None
    return storage.to(device=torch.device("hpu", _get_device_index(location, optional=True)))
