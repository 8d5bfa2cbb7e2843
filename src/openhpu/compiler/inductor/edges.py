"""Elementwise operators that give the CPU device's numbers at the edges: zeros by their sign, tiny and infinite ones.

Inductor's vector code takes shortcuts there: a hyperbolic function as the logarithm of a quotient, which is 0 near 0; a
bound as a maximum, which may return the other zero. Numbers beside tensors of 16 bits are rounded where the CPU's
kernels round them.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

_aten = torch.ops.aten
_SHORT = (torch.bfloat16, torch.float16)
_FLOATS = (*_SHORT, torch.float32)
_HUGE = 1e10  # where 1 beside a square is lost


def expm1(x: Any) -> str:
    """Inductor's vector code is exp(x) - 1."""
    return f"{x}.expm1()"


def _acosh(x: Tensor) -> Tensor:
    wide = x.float()
    above = wide - 1.0
    near = torch.log1p(above + torch.sqrt(above) * torch.sqrt(above + 2.0))
    return torch.where(wide > _HUGE, torch.log(wide) + math.log(2.0), near).to(x.dtype)


def _atanh(x: Tensor) -> Tensor:
    wide = x.float()
    return (0.5 * torch.log1p(2.0 * wide / (1.0 - wide))).to(x.dtype)


def _clamp(x: Tensor, min: Any = None, max: Any = None) -> Any:
    for bound in (min, max):
        if bound is not None and (type(bound) not in (int, float) or math.isnan(bound)):
            return NotImplemented
    if min is not None:
        x = torch.where(x < min, min, x)
    return x if max is None else torch.where(x > max, max, x)


def _clamp_max(x: Tensor, max: Any) -> Any:
    return _clamp(x, None, max)


def _fmax(x: Tensor, y: Tensor) -> Tensor:
    return torch.where((x >= y) | y.isnan(), x, y)


def _fmin(x: Tensor, y: Tensor) -> Tensor:
    return torch.where((x <= y) | y.isnan(), x, y)


@functools.cache
def _gelu_of_infinity(dtype: torch.dtype) -> float:
    """By the CPU's kernel, of a vector: not a number for some processors."""
    with _disable_current_modes():  # it runs while a graph is traced
        return torch.nn.functional.gelu(torch.full((256,), math.inf, dtype=dtype))[0].item()


def _rounded(number: Any, dtype: torch.dtype) -> float | None:
    """The number of `dtype` next to it, or None where that is no other."""
    if not isinstance(number, float) or math.isnan(number):
        return None
    with _disable_current_modes():
        near = torch.tensor(number, dtype=torch.float64).to(dtype).item()
    return None if near == number else near


def _with_rounded_number(operator: Callable[..., Any]) -> Callable[..., Any]:
    """A sum or difference with a number, or with a factor of its second operand, which the kernels round first."""

    def decomposed(x: Tensor, y: Any, *, alpha: Any = 1) -> Any:
        if isinstance(y, Tensor):
            factor = _rounded(alpha, x.dtype) if y.dtype is x.dtype else None
            return NotImplemented if factor is None else operator(x, y, alpha=factor)
        number = _rounded(y, x.dtype) if alpha == 1 else None
        return NotImplemented if number is None else operator(x, number)

    return decomposed


def _beside_number(operator: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Any], Any]:
    """A product or quotient with a number that a tensor of no dimension holds, which the kernels do not round first."""

    def decomposed(x: Tensor, y: Any) -> Any:
        if not isinstance(y, Tensor) or y.dim() > 0 or x.dim() == 0 or y.dtype not in (torch.float32, torch.float64):
            return NotImplemented
        return operator(x.float(), y.float()).to(x.dtype)

    return decomposed


# Of each operator the function, and the dtypes of its first operand for which it is.
_FUNCTIONS: dict[Any, tuple[Callable[..., Any], tuple[torch.dtype, ...]]] = {
    _aten.acosh.default: (_acosh, _FLOATS),
    _aten.atanh.default: (_atanh, _FLOATS),
    _aten.clamp.default: (_clamp, _FLOATS),
    _aten.clamp_min.default: (_clamp, _FLOATS),
    _aten.clamp_max.default: (_clamp_max, _FLOATS),
    _aten.fmax.default: (_fmax, (torch.float16, torch.float32)),
    _aten.fmin.default: (_fmin, (torch.float16, torch.float32)),
    _aten.add.Tensor: (_with_rounded_number(torch.add), _SHORT),
    _aten.sub.Tensor: (_with_rounded_number(torch.sub), _SHORT),
    _aten.rsub.Scalar: (_with_rounded_number(torch.rsub), _SHORT),
    _aten.mul.Tensor: (_beside_number(torch.mul), _SHORT),
    _aten.div.Tensor: (_beside_number(torch.div), _SHORT),
}


def decompositions(table: dict[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """Those of `table`, and these, each where it is for the dtype."""
    gelu = table[_aten.gelu.default]
    own = {op: _for(dtypes, function, table.get(op)) for op, (function, dtypes) in _FUNCTIONS.items()}
    return table | own | {_aten.gelu.default: functools.partial(_gelu, gelu)}


def _gelu(plain: Callable[..., Any], x: Tensor, approximate: str = "none") -> Any:
    result = plain(x, approximate=approximate)
    if approximate != "none" or x.dtype not in _FLOATS or not math.isnan(_gelu_of_infinity(x.dtype)):
        return result
    return torch.where(x == math.inf, math.nan, result)


def _for(
    dtypes: tuple[torch.dtype, ...], function: Callable[..., Any], otherwise: Callable[..., Any] | None
) -> Callable[..., Any]:
    def decomposed(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs) if getattr(args[0], "dtype", None) in dtypes else NotImplemented
        if result is NotImplemented and otherwise is not None:
            return otherwise(*args, **kwargs)
        return result

    return decomposed
