"""Fused optimizer operators as pointwise operators, for Inductor to fuse.

Inductor fuses them with each other and with the operators that made the gradients. The operations and their order are
those of the device's kernels (csrc/kernels/FusedOptimizers.cpp), so that both have the same bits. Bias corrections are
in float64, the rest in the dtype of the parameter or, for bfloat16 and float16, in float32. Each function has the
operator's arguments and changes the same tensors in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from openhpu import _machine
from openhpu.compiler.program.stored import stored

Number = Any  # a float, a symbol for one, or a 0-dim tensor

# From so many parameters on, a recipe calls the device's kernel: code for each of them takes longer to make than the
# rest of a training step's.
MANY = 16

_library = torch.library.Library("openhpu", "FRAGMENT")
if not hasattr(torch.ops.openhpu, "adam_step"):  # the compile process does not load the core, which has it
    _library.define(_machine.adam_step_schema)


@torch.library.register_fake("openhpu::adam_step", lib=_library)
def _adam_step_fake(*args: Any) -> None:
    pass


def _computed_in(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _coefficient(value: Number, dtype: torch.dtype) -> Number:
    """A number to compute with: a tensor takes the dtype, lest a 0-dim parameter be promoted by it."""
    return value.to(dtype) if isinstance(value, Tensor) else value


def _unscaled(
    grad: Tensor, grad_scale: Tensor | None, found_inf: Tensor | None, dtype: torch.dtype, maximize: bool
) -> Tensor:
    """The gradient in the computation's dtype, divided by the scale, with its sign. As the kernels do it, the quotient
    stays in `grad`."""
    value = grad.to(dtype)
    if grad_scale is not None:
        value = value / grad_scale.to(dtype).reshape(())
        _assign(grad, value, found_inf)
    return -value if maximize else value


def _assign(target: Tensor, value: Tensor, found_inf: Tensor | None) -> None:
    if found_inf is not None:
        value = torch.where(found_inf.reshape(()) == 1, target.to(value.dtype), value)
    target.copy_(value)


def _power(base: float, steps: Tensor) -> Tensor:
    """`base` to the power of int64 numbers below 2^24 (a float32 counts no further), in float64 by products alone."""
    result = one = torch.ones_like(steps, dtype=torch.float64)
    for bit in range(24):  # each result is used once: Inductor writes it out for each use
        result = result * torch.where((steps >> bit) & 1 == 1, torch.full_like(one, base), one)
        base *= base
    return result


def _adam(
    decoupled: bool,
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    max_exp_avg_sqs: Sequence[Tensor],
    state_steps: Sequence[Tensor],
    lr: Number,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    amsgrad: bool,
    maximize: bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None:
    if not params:
        return
    if len(params) >= MANY and not amsgrad and grad_scale is None and found_inf is None:
        rate = lr if isinstance(lr, Tensor) else torch.scalar_tensor(lr, dtype=torch.float64)
        torch.ops.openhpu.adam_step.default(
            params, grads, exp_avgs, exp_avg_sqs, state_steps, rate,
            beta1, beta2, weight_decay, eps, decoupled, maximize,
        )  # fmt: skip
        return
    steps = stored(torch.stack([step.reshape(()) for step in state_steps]).to(torch.int64))
    rate = _coefficient(lr, torch.float64)
    step_sizes = (1 - _power(beta1, steps)).reciprocal() * rate
    roots = (1 - _power(beta2, steps)).sqrt()
    by_dtype = {}
    for dtype in {_computed_in(param.dtype) for param in params}:
        by_dtype[dtype] = stored(step_sizes.to(dtype)), stored(roots.to(dtype))
    for i, (param, exp_avg, exp_avg_sq) in enumerate(zip(params, exp_avgs, exp_avg_sqs, strict=True)):
        dtype = _computed_in(param.dtype)
        step_size, root = by_dtype[dtype][0][i], by_dtype[dtype][1][i]
        grad = _unscaled(grads[i], grad_scale, found_inf, dtype, maximize)
        value = param.to(dtype)
        if weight_decay:
            if decoupled:
                value = value * _coefficient(1 - rate * weight_decay, dtype)
            else:
                grad = grad + value * weight_decay
        average = exp_avg.to(dtype)
        average = average + (grad - average) * (1 - beta1)
        square = exp_avg_sq.to(dtype) * beta2 + (1 - beta2) * grad * grad
        largest = square
        if amsgrad:
            largest = torch.maximum(max_exp_avg_sqs[i].to(dtype), square)
            _assign(max_exp_avg_sqs[i], largest, found_inf)
        value = value - step_size * average / (largest.sqrt() / root + eps)
        _assign(param, value, found_inf)
        _assign(exp_avg, average, found_inf)
        _assign(exp_avg_sq, square, found_inf)


def fused_adam_(*args: Any, **kwargs: Any) -> None:
    """aten::_fused_adam_ and its overload tensor_lr."""
    _adam(False, *args, **kwargs)


def fused_adamw_(*args: Any, **kwargs: Any) -> None:
    """aten::_fused_adamw_ and its overload tensor_lr."""
    _adam(True, *args, **kwargs)


def fused_sgd_(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    momentum_buffers: Sequence[Tensor],
    weight_decay: float,
    momentum: float,
    lr: Number,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None:
    """aten::_fused_sgd_ and its overload tensor_lr."""
    for i, param in enumerate(params):
        dtype = _computed_in(param.dtype)
        grad = _unscaled(grads[i], grad_scale, found_inf, dtype, maximize)
        value = param.to(dtype)
        if weight_decay:
            grad = grad + value * weight_decay
        if momentum:
            buffer = grad if is_first_step else momentum_buffers[i].to(dtype) * momentum + grad * (1 - dampening)
            _assign(momentum_buffers[i], buffer, found_inf)
            grad = grad + buffer * momentum if nesterov else buffer
        _assign(param, value - grad * _coefficient(lr, dtype), found_inf)


def fused_adagrad_(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    state_sums: Sequence[Tensor],
    state_steps: Sequence[Tensor],
    lr: Number,
    lr_decay: float,
    weight_decay: float,
    eps: float,
    maximize: bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None:
    """aten::_fused_adagrad_ and its overload tensor_lr."""
    for i, param in enumerate(params):
        dtype = _computed_in(param.dtype)
        step = state_steps[i].reshape(()).to(torch.float64)
        decayed = (1 + (step - 1) * lr_decay).reciprocal() * _coefficient(lr, torch.float64)
        rate = stored(decayed.to(dtype))
        grad = _unscaled(grads[i], grad_scale, found_inf, dtype, maximize)
        value = param.to(dtype)
        if weight_decay:
            grad = grad + value * weight_decay
        total = state_sums[i].to(dtype) + grad * grad
        _assign(state_sums[i], total, found_inf)
        _assign(param, value - rate * grad / (total.sqrt() + eps), found_inf)
