"""Constants have the digits of their dtype, as in tensors.

Inductor follows a constant through conversions and keeps all of its digits: bfloat16's 0.7 goes on as float32's 0.7.
So a constant is rounded where it fills a tensor, where it is converted, and as float32 after each operator. A number
beside a tensor of a narrower dtype keeps the digits of float32, as in the CPU's kernels.
"""

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch.utils._python_dispatch import _disable_current_modes


def _converted(number: float, source: torch.dtype, dtype: torch.dtype) -> float:
    """What a tensor of `source` that holds this number holds as one of `dtype`."""
    with _disable_current_modes():
        return torch.tensor(number, dtype=source, device="cpu").to(dtype).item()


@contextlib.contextmanager
def rounded() -> Iterator[None]:
    """While it lasts, Inductor rounds constants of floats."""
    from torch._inductor import lowering
    from torch._inductor.index_propagation import SymPyOps, TypedExpr

    full, finish, convert = lowering._full, TypedExpr.__post_init__, SymPyOps.to_dtype

    def filled(fill_value: Any, device: Any, dtype: torch.dtype, size: Any) -> Any:
        if isinstance(fill_value, (int, float)) and dtype.is_floating_point:
            fill_value = _converted(fill_value, dtype, dtype)
        return full(fill_value, device, dtype, size)

    def made(self: Any) -> None:
        finish(self)
        if self.dtype is torch.float32 and self.is_constant():
            self.expr = _converted(self.expr, torch.float64, torch.float32)

    def converted(value: Any, dtype: torch.dtype, *args: Any, **options: Any) -> Any:
        if value.is_constant() and dtype.is_floating_point:
            source = torch.float64 if value.dtype.is_floating_point else value.dtype
            return TypedExpr(_converted(value.expr, source, dtype), dtype)
        return convert(value, dtype, *args, **options)

    with (
        mock.patch.object(lowering, "_full", filled),
        mock.patch.object(TypedExpr, "__post_init__", made),
        mock.patch.object(SymPyOps, "to_dtype", staticmethod(converted)),
    ):
        yield
