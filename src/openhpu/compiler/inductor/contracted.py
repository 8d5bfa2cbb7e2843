"""Elementwise operators whose CPU kernels round a product and a sum once, as operators that do the same.

PyTorch's kernels are compiled for processors with fused multiplication and addition, and the compiler may use it. This
module has the compiler's choice for each operator, so that a recipe has the bits of the kernel. In generated code the
compiler has no such choice.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_aten = torch.ops.aten
_DTYPES = (torch.float32, torch.float64)


def _fma(a: Tensor | Any, b: Tensor | Any, c: Tensor) -> Tensor:
    """a * b + c, rounded once; a and b may be numbers, one of them."""
    import torch._inductor.inductor_prims  # registers the operator

    like = a if isinstance(a, Tensor) else b
    tensors = [x if isinstance(x, Tensor) else torch.full_like(like, x) for x in (a, b, c)]
    return torch.ops.prims.fma.default(*torch.broadcast_tensors(*tensors))  # type: ignore[no-any-return]


def _is_one(number: Any) -> bool:
    return type(number) in (int, float) and number == 1


def _sum(x: Tensor, y: Any, *, alpha: Any = 1) -> Any:
    return NotImplemented if _is_one(alpha) or not isinstance(y, Tensor) else _fma(y, alpha, x)


def _difference(x: Tensor, y: Any, *, alpha: Any = 1) -> Any:
    return NotImplemented if _is_one(alpha) or not isinstance(y, Tensor) else _fma(y, -alpha, x)


def _reversed_difference(x: Tensor, y: Tensor, *, alpha: Any = 1) -> Any:
    return y - x if _is_one(alpha) else _fma(x, -alpha, y)


def _addcmul(x: Tensor, a: Tensor, b: Tensor, *, value: Any = 1) -> Tensor:
    return _fma(a if _is_one(value) else a * value, b, x)


def _addcdiv(x: Tensor, a: Tensor, b: Tensor, *, value: Any = 1) -> Tensor:
    return x + (a if _is_one(value) else a * value) / b


def _lerp_scalar(x: Tensor, y: Tensor, weight: Any) -> Any:
    if type(weight) not in (int, float):
        return _lerp(x, y, torch.full_like(x, weight))
    return _fma(y - x, weight, x) if abs(weight) < 0.5 else NotImplemented


def _lerp(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    near = weight.abs() < 0.5
    return _fma(torch.where(near, weight, weight - 1), y - x, torch.where(near, x, y))


def _tanh_backward(grad: Tensor, y: Tensor) -> Tensor:
    return grad * _fma(-y, y, torch.ones_like(y))


def _sigmoid_backward(grad: Tensor, y: Tensor) -> Tensor:
    return grad * (1 - y) * y


def _power(x: Tensor, exponent: Any) -> Any:
    if exponent == 0.5:
        return x.sqrt()
    if exponent == -0.5:
        return x.rsqrt()
    return 1 / (x * x) if exponent == -2 else NotImplemented


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    _aten.add.Tensor: _sum,
    _aten.sub.Tensor: _difference,
    _aten.rsub.Tensor: _reversed_difference,
    _aten.addcmul.default: _addcmul,
    _aten.addcdiv.default: _addcdiv,
    _aten.lerp.Scalar: _lerp_scalar,
    _aten.lerp.Tensor: _lerp,
    _aten.tanh_backward.default: _tanh_backward,
    _aten.sigmoid_backward.default: _sigmoid_backward,
    _aten.pow.Tensor_Scalar: _power,
}


def decompositions(table: dict[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """Those of `table`, and these, where all tensors have one of the dtypes that the kernels compute in."""
    return table | {op: _where_exact(function, table.get(op)) for op, function in _FUNCTIONS.items()}


def _where_exact(function: Callable[..., Any], otherwise: Callable[..., Any] | None) -> Callable[..., Any]:
    def decomposed(*args: Any, **kwargs: Any) -> Any:
        tensors = [x for x in args if isinstance(x, Tensor)]
        result = NotImplemented
        if tensors[0].dtype in _DTYPES and all(t.dtype == tensors[0].dtype for t in tensors):
            result = function(*args, **kwargs)
        if result is NotImplemented and otherwise is not None:
            return otherwise(*args, **kwargs)
        return result

    return decomposed
