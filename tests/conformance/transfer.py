"""Copies of a sample's arguments for one device: strides, aliasing, conjugation and leaves are kept.

`Tensor.to` makes expanded and strided tensors dense and gives two views of one storage a storage each. Here each
storage is copied once, and the tensors over it are rebuilt with their own sizes, strides and offsets.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves, tree_map


@dataclass(frozen=True)
class OnHost:
    """A tensor that an operator takes from the CPU on every device."""

    tensor: torch.Tensor


class Transfer:
    """Rebuilds values of one sample on `device`. One instance per copy: it remembers what it has copied."""

    def __init__(self, device: str):
        self.device = torch.device(device)
        self._bases: dict[tuple[int, torch.dtype], torch.Tensor] = {}
        self._tensors: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __call__(self, value: Any) -> Any:
        return tree_map(self._leaf, value)

    def _leaf(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, OnHost):
            return value.tensor.clone()
        if isinstance(value, torch.device):
            return self.device if value.type == "cpu" else value
        if isinstance(value, str) and value == "cpu":
            return str(self.device)
        if isinstance(value, torch.Generator):
            return torch.Generator(self.device).manual_seed(value.initial_seed())
        return value

    def _tensor(self, t: torch.Tensor) -> torch.Tensor:
        known = self._tensors.get(id(t))
        if known is not None:
            return known[1]
        with torch.no_grad():
            copy = self._rebuild(t)
            if copy.requires_grad != t.requires_grad:
                copy.requires_grad_(t.requires_grad)
        self._tensors[id(t)] = (t, copy)  # the original is kept alive, so that its id stays its own
        return copy

    def _rebuild(self, t: torch.Tensor) -> torch.Tensor:
        if t.device.type == "meta":
            return t.detach()
        plain = t.layout is torch.strided and not t.is_quantized and not is_traceable_wrapper_subclass(t)
        if not plain or t.is_nested or type(t) not in (torch.Tensor, torch.nn.Parameter):
            return t.detach().clone().to(self.device)
        if t.device.type != "cpu":
            return t.detach().clone()
        storage = t.untyped_storage()
        key = (storage._cdata, t.dtype)
        base = self._bases.get(key)
        if base is None:
            flat = torch.empty(0, dtype=t.dtype).set_(storage, 0, (storage.nbytes() // t.element_size(),), (1,))
            base = flat.clone() if self.device.type == "cpu" else flat.to(self.device)
            self._bases[key] = base
        copy = base.as_strided(t.size(), t.stride(), t.storage_offset())
        if t.is_conj():
            copy = torch._conj(copy)
        if t.is_neg():
            copy = torch._neg_view(copy)
        return copy.detach()


def tensors_of(value: Any) -> list[torch.Tensor]:
    """All tensors inside nested tuples, lists and dicts, in order."""
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
