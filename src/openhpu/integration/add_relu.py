"""`torch._add_relu` of 16 bits, which the CPU's kernel lacks: relu(self + other * alpha), with each step rounded.

So it gives what the operators give one by one. Casts are written out, because a recipe rounds where there is one.
"""

import functools
import warnings
from typing import Any

import torch
from torch import Tensor

_SHORT = (torch.bfloat16, torch.float16)


def _sum(x: Tensor, other: Tensor, alpha: Any) -> Tensor:
    product = other if alpha == 1 else (other.float() * alpha).to(x.dtype)
    return (x.float() + product.float()).to(x.dtype).relu()


@functools.cache
def install() -> torch.library.Library:
    """Register it over the device's kernels, which still do the other dtypes."""
    library = torch.library.Library("aten", "IMPL")
    plain = {
        name: torch.library.get_kernel(f"aten::{name}", "HPU")
        for name in ("_add_relu.Tensor", "_add_relu_.Tensor", "_add_relu.out")
    }

    def new(keys: Any, self: Tensor, other: Tensor, *, alpha: Any = 1) -> Any:
        if self.dtype in _SHORT and other.dtype is self.dtype:
            return _sum(self, other, alpha)
        return plain["_add_relu.Tensor"].call_boxed(keys, self, other, alpha=alpha)

    def own(keys: Any, self: Tensor, other: Tensor, *, alpha: Any = 1) -> Any:
        if self.dtype in _SHORT and other.dtype is self.dtype:
            return self.copy_(_sum(self, other, alpha))
        plain["_add_relu_.Tensor"].call_boxed(keys, self, other, alpha=alpha)
        return self

    def into(keys: Any, self: Tensor, other: Tensor, *, alpha: Any = 1, out: Tensor) -> Any:
        if self.dtype in _SHORT and other.dtype is out.dtype is self.dtype:
            result = _sum(self, other, alpha)
            return out.resize_(result.shape).copy_(result)
        plain["_add_relu.out"].call_boxed(keys, self, other, alpha=alpha, out=out)
        return out

    with warnings.catch_warnings(action="ignore"):  # that kernels are replaced is meant
        for name, function in zip(plain, (new, own, into), strict=True):
            library.impl(name, function, "HPU", with_keyset=True)
    return library
