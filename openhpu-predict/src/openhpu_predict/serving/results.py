"""What the plugin gets from a call of the model: a fake tensor that remembers its parts.

In each step the plugin flattens the states, and takes some rows. Under fake tensors both are dear, and the result
depends on their number alone.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map


class Result:
    """In the place of a fake tensor, whose methods and attributes it has.

    Its part by a slice, or by a vector of indices, is made once for each size. `make` makes it under fake tensors.
    """

    def __init__(self, tensor: torch.Tensor, make: Callable[[Callable[[], torch.Tensor]], torch.Tensor]) -> None:
        self.tensor = tensor
        self._make = make
        self._parts: dict[Any, Result] = {}

    def view(self, *sizes: Any) -> "Result":
        """As of a tensor."""
        return self._part(("view", *sizes), lambda: self.tensor.view(*sizes))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._part((index.start, index.stop, index.step), lambda: self.tensor[index])
        if isinstance(index, torch.Tensor) and index.dim() == 1 and index.dtype in (torch.int32, torch.int64):
            rows = index.shape[0]
            return self._part(rows, lambda: self.tensor.new_empty(rows, *self.tensor.shape[1:]))
        return self.tensor[index]

    def _part(self, key: Any, of: Callable[[], torch.Tensor]) -> "Result":
        found = self._parts.get(key)
        if found is None:
            found = self._parts[key] = Result(self._make(of), self._make)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tensor, name)

    def __len__(self) -> int:
        return len(self.tensor)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*plain(args), **plain(kwargs or {}))


def plain(arguments: Any) -> Any:
    """Arguments, nested in any way, with the tensors themselves."""
    return tree_map(lambda one: one.tensor if isinstance(one, Result) else one, arguments)
