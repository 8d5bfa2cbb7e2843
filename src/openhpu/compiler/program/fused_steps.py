"""Fused optimizer operators as pointwise operators, for Inductor to fuse.

Inductor fuses them with each other and with the operators that made the gradients. The operations and their order are
those of the device's kernels (csrc/kernels/FusedOptimizers.cpp), so that both have the same bits. Bias corrections are
in float64, the rest in the dtype of the parameter or, for bfloat16 and float16, in float32. Each function
changes the same tensors in place.
"""

import functools
from typing import Any

import torch
from torch import Tensor

from openhpu import _machine
from openhpu.compiler.program.named import Arguments, by_name
from openhpu.compiler.program.stored import stored

Number = Any  # a float, a symbol for one, or a 0-dim tensor

# From so many parameters on, a recipe calls the device's kernel: code for each of them takes longer to make than the
# rest of a training step's.
MANY = 16

_library = torch.library.Library("openhpu", "FRAGMENT")
if not hasattr(torch.ops.openhpu, "adam_step"):  # the compile process does not load the core, which has it
    _library.define(_machine.adam_step_schema)


torch.library.register_fake("openhpu::adam_step", lambda *args: None, lib=_library)


def _computed_in(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _coefficient(value: Number, dtype: torch.dtype) -> Number:
    """A number to compute with: a tensor takes the dtype, lest a 0-dim parameter be promoted by it."""
    return value.to(dtype) if isinstance(value, Tensor) else value


def _unscaled(a: Arguments, i: int, dtype: torch.dtype) -> Tensor:
    """A gradient in the computation's dtype, divided by the scale, with its sign. As the kernels do it, the quotient
    stays in the gradient."""
    value: Tensor = a.grads[i].to(dtype)
    if a.grad_scale is not None:
        value = value / a.grad_scale.to(dtype).reshape(())
        _assign(a.grads[i], value, a.found_inf)
    return -value if a.maximize else value


def _decayed(a: Arguments, i: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """A gradient with the weight decay in it, and its parameter."""
    grad = _unscaled(a, i, dtype)
    value = a.self[i].to(dtype)
    return grad + value * a.weight_decay if a.weight_decay else grad, value


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


def _adam(decoupled: bool, a: Arguments) -> None:
    """aten::_fused_adam_ and aten::_fused_adamw_, and their overloads tensor_lr."""
    params, lr = a.self, a.lr
    if not params:
        return
    if len(params) >= MANY and not a.amsgrad and a.grad_scale is None and a.found_inf is None:
        rate = lr if isinstance(lr, Tensor) else torch.scalar_tensor(lr, dtype=torch.float64)
        torch.ops.openhpu.adam_step.default(
            params,
            a.grads,
            a.exp_avgs,
            a.exp_avg_sqs,
            a.state_steps,
            rate,
            a.beta1,
            a.beta2,
            a.weight_decay,
            a.eps,
            decoupled,
            a.maximize,
        )
        return
    steps = stored(torch.stack([step.reshape(()) for step in a.state_steps]).to(torch.int64))
    rate = _coefficient(lr, torch.float64)
    step_sizes = (1 - _power(a.beta1, steps)).reciprocal() * rate
    roots = (1 - _power(a.beta2, steps)).sqrt()
    dtypes = {_computed_in(param.dtype) for param in params}
    by_dtype = {dtype: (stored(step_sizes.to(dtype)), stored(roots.to(dtype))) for dtype in dtypes}
    for i, (param, exp_avg, exp_avg_sq) in enumerate(zip(params, a.exp_avgs, a.exp_avg_sqs, strict=True)):
        dtype = _computed_in(param.dtype)
        step_size, root = by_dtype[dtype][0][i], by_dtype[dtype][1][i]
        grad = _unscaled(a, i, dtype)
        value = param.to(dtype)
        if a.weight_decay:
            if decoupled:
                value = value * _coefficient(1 - rate * a.weight_decay, dtype)
            else:
                grad = grad + value * a.weight_decay
        average = exp_avg.to(dtype)
        average = average + (grad - average) * (1 - a.beta1)
        square = exp_avg_sq.to(dtype) * a.beta2 + (1 - a.beta2) * grad * grad
        largest = square
        if a.amsgrad:
            largest = torch.maximum(a.max_exp_avg_sqs[i].to(dtype), square)
            _assign(a.max_exp_avg_sqs[i], largest, a.found_inf)
        value = value - step_size * average / (largest.sqrt() / root + a.eps)
        _assign(param, value, a.found_inf)
        _assign(exp_avg, average, a.found_inf)
        _assign(exp_avg_sq, square, a.found_inf)


def _sgd(a: Arguments) -> None:
    """aten::_fused_sgd_ and its overload tensor_lr."""
    for i, param in enumerate(a.self):
        dtype = _computed_in(param.dtype)
        grad, value = _decayed(a, i, dtype)
        if a.momentum:
            old = a.momentum_buffer_list
            buffer = grad if a.is_first_step else old[i].to(dtype) * a.momentum + grad * (1 - a.dampening)
            _assign(old[i], buffer, a.found_inf)
            grad = grad + buffer * a.momentum if a.nesterov else buffer
        _assign(param, value - grad * _coefficient(a.lr, dtype), a.found_inf)


def _adagrad(a: Arguments) -> None:
    """aten::_fused_adagrad_ and its overload tensor_lr."""
    for i, param in enumerate(a.self):
        dtype = _computed_in(param.dtype)
        step = a.state_steps[i].reshape(()).to(torch.float64)
        decayed = (1 + (step - 1) * a.lr_decay).reciprocal() * _coefficient(a.lr, torch.float64)
        rate = stored(decayed.to(dtype))
        grad, value = _decayed(a, i, dtype)
        total = a.state_sums[i].to(dtype) + grad * grad
        _assign(a.state_sums[i], total, a.found_inf)
        _assign(param, value - rate * grad / (total.sqrt() + a.eps), a.found_inf)


# By operator, whatever its overload.
FUNCTIONS = {
    f"aten::{name}": by_name(getattr(torch.ops.aten, name).default._schema.arguments, step)
    for name, step in (
        ("_fused_adam_", functools.partial(_adam, False)),
        ("_fused_adamw_", functools.partial(_adam, True)),
        ("_fused_sgd_", _sgd),
        ("_fused_adagrad_", _adagrad),
    )
}
