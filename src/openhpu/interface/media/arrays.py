"""Arrays that go through a media pipe: their dtypes, their axes, and the seeds of random operators."""

from typing import Any

import numpy as np
import torch

from openhpu.interface.media import types
from openhpu.interface.media.pipe import Node

Array = np.ndarray[Any, Any]


def cast(values: Any, name: str) -> Any:
    """To a dtype of `types.dtype`; integers saturate and round."""
    if name == types.dtype.BFLOAT16:
        return torch.from_numpy(np.ascontiguousarray(array(values), dtype=np.float32)).to(torch.bfloat16)
    wanted = np.dtype(name)
    found = array(values)
    if wanted.kind in "iu":
        bounds = np.iinfo(wanted)
        found = np.clip(np.rint(found) if found.dtype.kind == "f" else found, bounds.min, bounds.max)
    return found.astype(wanted, copy=False)


def array(values: Any) -> Array:
    return values.float().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)


def seed(given: int | None) -> int:
    return int(torch.empty((), dtype=torch.int64).random_().item()) if given is None else given


def axes(node: Node, batch: Array) -> tuple[int, int]:
    """Of height and width."""
    if batch.ndim == 4 and batch.shape[3] == 3:
        return 1, 2
    if batch.ndim == 4 and batch.shape[1] == 3:
        return 2, 3
    raise node.error(f"expected a batch of RGB images; got an array of the shape {batch.shape}")
