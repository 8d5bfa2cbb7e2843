"""Conversions of numbers that do not fit: a recipe has the CPU kernels' result.

C++ leaves open which integer a float becomes that does not fit. PyTorch's CPU kernels have what the processor gives, in
vectors and in what remains behind them. It is the lower bits of an integer of 32 bits, and for uint8, uint32 and
integers of 64 bits those of one of 64 bits. Where a number does not fit into that one either, or is no number, only the
uppermost bit of it is set. Inductor's vectors saturate some numbers. Inductor wraps constants of any size, and the C++
compiler saturates them. So generated code calls `casts.h` instead, and Inductor leaves constants to it.

Inductor follows a constant through conversions and keeps all of its digits: bfloat16's 0.7 goes on as float32's 0.7.
So a constant gets the value that its dtype has: where it fills a tensor, where it is converted, and as float32 after
each operator. A number beside a tensor of a narrower dtype keeps the digits of float32, as in the CPU's kernels.

The same code rounds to float32 once. With AVX2 Inductor's vectors round an int64 twice. With AVX-512 GCC 12 rounds no
vector of float64 that becomes float64 again.
"""

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch.utils._python_dispatch import _disable_current_modes


def _is_cut(source: torch.dtype | None, dtype: torch.dtype) -> bool:
    """Whether floats become integers. The value of an index expression has no dtype; it is an integer."""
    return source is not None and source.is_floating_point and not dtype.is_floating_point and dtype is not torch.bool


def _converted(number: float, source: torch.dtype, dtype: torch.dtype) -> float:
    """What a tensor of `source` that holds this number holds as one of `dtype`."""
    with _disable_current_modes():
        return torch.tensor(number, dtype=source, device="cpu").to(dtype).item()


@contextlib.contextmanager
def as_on_cpu() -> Iterator[None]:
    """While it lasts, Inductor converts as the CPU kernels do."""
    from torch._inductor import lowering
    from torch._inductor.codegen.cpp import DTYPE_TO_CPP, CppKernel, CppVecKernel
    from torch._inductor.index_propagation import SymPyOps, TypedExpr

    full, finish = lowering._full, TypedExpr.__post_init__
    one, vector, constant = CppKernel.get_to_dtype_expr, CppVecKernel.get_to_dtype_expr, SymPyOps.to_dtype

    def to_dtype(self: Any, x: Any, dtype: Any, source: Any, rounding: bool = False) -> Any:
        if _is_cut(source, dtype) and not rounding:
            return f"openhpu::to_integer<{DTYPE_TO_CPP[dtype]}>({x})"
        if source is torch.float64 and dtype is torch.float32:
            return f"openhpu::to_float({x})"
        return one(self, x, dtype, source, rounding)

    def to_dtype_vector(self: Any, x: Any, dtype: Any, source: Any, rounding: bool = False) -> Any:
        if x.is_vec:
            to = self._get_num_vectors(dtype)
            given = f"{DTYPE_TO_CPP[source]}, {self._get_num_vectors(source)}"
            if _is_cut(source, dtype) and not rounding:
                return f"openhpu::to_integers<{DTYPE_TO_CPP[dtype]}, {to}, {given}>({x})"
            if source in (torch.float64, torch.int64) and dtype is torch.float32:
                return f"openhpu::to_floats<{to}, {given}>({x})"
        return vector(self, x, dtype, source, rounding)

    def to_dtype_constant(value: Any, dtype: Any, *args: Any, **options: Any) -> Any:
        if value.is_constant() and _is_cut(value.dtype, dtype):
            return NotImplemented
        if value.is_constant() and dtype.is_floating_point:
            source = torch.float64 if value.dtype.is_floating_point else value.dtype
            return TypedExpr(_converted(value.expr, source, dtype), dtype)
        return constant(value, dtype, *args, **options)

    def made(self: Any) -> None:
        finish(self)
        if self.dtype is torch.float32 and self.is_constant():
            self.expr = _converted(self.expr, torch.float64, torch.float32)

    def filled(fill_value: Any, device: Any, dtype: torch.dtype, size: Any) -> Any:
        if isinstance(fill_value, (int, float)) and dtype.is_floating_point:
            fill_value = _converted(fill_value, dtype, dtype)
        return full(fill_value, device, dtype, size)

    with (
        mock.patch.object(CppKernel, "get_to_dtype_expr", to_dtype),
        mock.patch.object(CppVecKernel, "get_to_dtype_expr", to_dtype_vector),
        mock.patch.object(lowering, "_full", filled),
        mock.patch.object(TypedExpr, "__post_init__", made),
        mock.patch.object(SymPyOps, "to_dtype", staticmethod(to_dtype_constant)),
    ):
        yield
