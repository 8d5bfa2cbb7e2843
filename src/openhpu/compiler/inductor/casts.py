"""Conversions of numbers that do not fit: a recipe has the CPU kernels' result.

C++ leaves open which integer a float becomes that does not fit. PyTorch's CPU kernels have what the processor gives, in
vectors and in what remains behind them. It is the lower bits of an integer of 32 bits, and for uint8, uint32 and
integers of 64 bits those of one of 64 bits. Where a number does not fit into that one either, or is no number, only the
uppermost bit of it is set. Inductor's vectors saturate some numbers. Inductor wraps constants of any size, and the C++
compiler saturates them. So generated code calls `casts.h` instead, and Inductor leaves constants to it.

The same code rounds to float32 once. With AVX2 Inductor's vectors round an int64 twice. With AVX-512 GCC 12 rounds no
vector of float64 that becomes float64 again.
"""

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch


def _is_cut(source: torch.dtype | None, dtype: torch.dtype) -> bool:
    """Whether floats become integers. The value of an index expression has no dtype; it is an integer."""
    return source is not None and source.is_floating_point and not dtype.is_floating_point and dtype is not torch.bool


@contextlib.contextmanager
def as_on_cpu() -> Iterator[None]:
    """While it lasts, Inductor converts as the CPU kernels do."""
    from torch._inductor.codegen.cpp import DTYPE_TO_CPP, CppKernel, CppVecKernel
    from torch._inductor.index_propagation import SymPyOps

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
        return constant(value, dtype, *args, **options)

    with (
        mock.patch.object(CppKernel, "get_to_dtype_expr", to_dtype),
        mock.patch.object(CppVecKernel, "get_to_dtype_expr", to_dtype_vector),
        mock.patch.object(SymPyOps, "to_dtype", staticmethod(to_dtype_constant)),
    ):
        yield
