"""Floor division and remainder of floats, computed as the CPU kernels do: from `fmod`, which is exact.

Inductor's own are the floor of a quotient that was rounded up to an integer, and what this floor leaves.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

_aten = torch.ops.aten
# Of the computation, and of the result.
_dtypes = functools.partial(elementwise_dtypes, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT)


def decompositions(table: dict[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """Those of `table`, and these. They are NotImplemented for integers and other kinds of division."""
    remainders = (_aten.remainder.Tensor, _aten.remainder.Scalar, _aten.remainder.Scalar_Tensor)
    return table | dict.fromkeys(remainders, _remainder) | {_aten.div.Tensor_mode: _div, _aten.div.Scalar_mode: _div}


def _tensor(x: Any, dtype: torch.dtype, like: Any) -> Tensor:
    return (x if isinstance(x, Tensor) else like.new_full((), x, dtype=torch.float64)).to(dtype)


def _fmod(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The part of x that a quotient towards zero leaves, and where the floor is one less than this quotient."""
    rest = torch.fmod(x, y)
    return rest, (rest != 0) & ((y < 0) ^ (rest < 0))


def _remainder(x: Any, y: Any) -> Any:
    wide, dtype = _dtypes(x, y)
    if not dtype.is_floating_point:
        return NotImplemented
    x, y = _tensor(x, dtype, y).to(wide), _tensor(y, dtype, x).to(wide)
    rest, less = _fmod(x, y)
    return torch.where(less, rest + y, rest).to(dtype)


def _div(x: Any, y: Any, *, rounding_mode: str | None) -> Any:
    wide, dtype = _dtypes(x, y)
    if not dtype.is_floating_point or rounding_mode != "floor":
        return NotImplemented
    # The kernels of narrow floats round each step, but for one divisor none.
    step = wide if not isinstance(y, Tensor) or y.numel() == 1 else dtype
    x, y = _tensor(x, dtype, y).to(wide), _tensor(y, step, x).to(wide)

    def rounded(z: Tensor) -> Tensor:
        return z.to(step).to(wide)

    rest, less = _fmod(x, y)
    quotient = rounded(rounded(x - rest) / y)
    quotient = torch.where(less, rounded(quotient - 1), quotient)
    floor = quotient.floor()
    floor = torch.where(rounded(quotient - floor) > 0.5, rounded(floor + 1), floor)
    plain = rounded(x / y)
    floor = torch.where(quotient == 0, torch.zeros_like(plain).copysign(plain), floor)
    return torch.where(y == 0, plain, floor).to(dtype)
