"""Fused optimizer operators as pointwise operators, for Inductor to fuse.

Inductor fuses them with each other and with the operators that made the gradients. The operations and their order are
those of the device's kernels (csrc/kernels/FusedOptimizers.cpp), so that both have the same bits. Bias corrections are
in float64, the rest in the dtype of the parameter or, for bfloat16 and float16, in float32. Each function
changes the same tensors in place.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

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


torch.library.register_fake("openhpu::adam_step", lambda *args: None, lib=_library)


def _computed_in(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _coefficient(value: Number, dtype: torch.dtype) -> Number:
    """A number to compute with: a tensor takes the dtype, lest a 0-dim parameter be promoted by it."""
    return value.to(dtype) if isinstance(value, Tensor) else value


class _Gradients(NamedTuple):
    """How a step reads its gradients: divided by `grad_scale`, with the other sign if it maximizes. Nothing is written
    where `found_inf` is 1."""

    grads: list[Tensor]
    grad_scale: Tensor | None
    found_inf: Tensor | None
    maximize: bool

    def unscaled(self, i: int, dtype: torch.dtype) -> Tensor:
        """A gradient in the computation's dtype, divided by the scale, with its sign. As the kernels do it, the
        quotient stays in the gradient."""
        value: Tensor = self.grads[i].to(dtype)
        if self.grad_scale is not None:
            value = value / self.grad_scale.to(dtype).reshape(())
            self.assign(self.grads[i], value)
        return -value if self.maximize else value

    def decayed(self, i: int, param: Tensor, weight_decay: float) -> tuple[Tensor, Tensor]:
        """A gradient with the weight decay in it, and its parameter, in the dtype of the computation."""
        dtype = _computed_in(param.dtype)
        grad = self.unscaled(i, dtype)
        value = param.to(dtype)
        return grad + value * weight_decay if weight_decay else grad, value

    def assign(self, target: Tensor, value: Tensor) -> None:
        """Write a result."""
        if self.found_inf is not None:
            value = torch.where(self.found_inf.reshape(()) == 1, target.to(value.dtype), value)
        target.copy_(value)


def _power(base: float, steps: Tensor) -> Tensor:
    """`base` to the power of int64 numbers below 2^24 (a float32 counts no further), in float64 by products alone."""
    result = one = torch.ones_like(steps, dtype=torch.float64)
    for bit in range(24):  # each result is used once: Inductor writes it out for each use
        result = result * torch.where((steps >> bit) & 1 == 1, torch.full_like(one, base), one)
        base *= base
    return result


class _Adam(NamedTuple):
    """What Adam and AdamW do with one parameter. `rate`: the learning rate; a tensor is 0-dim, of float64."""

    decoupled: bool
    rate: Number
    beta1: float
    beta2: float
    weight_decay: float

    def decayed(self, value: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
        """The parameter's value and its gradient, one of them with the weight decay."""
        if not self.weight_decay:
            return value, grad
        if self.decoupled:
            return value * _coefficient(1 - self.rate * self.weight_decay, value.dtype), grad
        return value, grad + value * self.weight_decay

    def corrections(
        self, state_steps: list[Tensor], dtypes: set[torch.dtype]
    ) -> dict[torch.dtype, tuple[Tensor, Tensor]]:
        """For each dtype: the steps' sizes, and the roots by which those of the squares are divided, [parameters]."""
        steps = stored(torch.stack([step.reshape(()) for step in state_steps]).to(torch.int64))
        step_sizes = (1 - _power(self.beta1, steps)).reciprocal() * self.rate
        roots = (1 - _power(self.beta2, steps)).sqrt()
        return {dtype: (stored(step_sizes.to(dtype)), stored(roots.to(dtype))) for dtype in dtypes}

    def averages(self, grad: Tensor, exp_avg: Tensor, exp_avg_sq: Tensor) -> tuple[Tensor, Tensor]:
        """The new averages of the gradient and of its square, in the gradient's dtype."""
        average = exp_avg.to(grad.dtype)
        average = average + (grad - average) * (1 - self.beta1)
        square = exp_avg_sq.to(grad.dtype) * self.beta2 + (1 - self.beta2) * grad * grad
        return average, square


def _adam(
    decoupled: bool,
    params: list[Tensor],
    grads: list[Tensor],
    exp_avgs: list[Tensor],
    exp_avg_sqs: list[Tensor],
    max_exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor],
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
    """aten::_fused_adam_ and aten::_fused_adamw_, and their overloads tensor_lr."""
    if not params:
        return
    if len(params) >= MANY and not amsgrad and grad_scale is None and found_inf is None:
        rate = lr if isinstance(lr, Tensor) else torch.scalar_tensor(lr, dtype=torch.float64)
        torch.ops.openhpu.adam_step.default(
            params,
            grads,
            exp_avgs,
            exp_avg_sqs,
            state_steps,
            rate,
            beta1,
            beta2,
            weight_decay,
            eps,
            decoupled,
            maximize,
        )
        return
    given = _Gradients(grads, grad_scale, found_inf, maximize)
    rule = _Adam(decoupled, _coefficient(lr, torch.float64), beta1, beta2, weight_decay)
    by_dtype = rule.corrections(state_steps, {_computed_in(param.dtype) for param in params})
    for i, (param, exp_avg, exp_avg_sq) in enumerate(zip(params, exp_avgs, exp_avg_sqs, strict=True)):
        dtype = _computed_in(param.dtype)
        step_size, root = by_dtype[dtype][0][i], by_dtype[dtype][1][i]
        value, grad = rule.decayed(param.to(dtype), given.unscaled(i, dtype))
        average, square = rule.averages(grad, exp_avg, exp_avg_sq)
        largest = square
        if amsgrad:
            largest = torch.maximum(max_exp_avg_sqs[i].to(dtype), square)
            given.assign(max_exp_avg_sqs[i], largest)
        value = value - step_size * average / (largest.sqrt() / root + eps)
        given.assign(param, value)
        given.assign(exp_avg, average)
        given.assign(exp_avg_sq, square)


def _sgd(
    params: list[Tensor],
    grads: list[Tensor],
    momentum_buffer_list: list[Tensor],
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
    given = _Gradients(grads, grad_scale, found_inf, maximize)
    for i, param in enumerate(params):
        dtype = _computed_in(param.dtype)
        grad, value = given.decayed(i, param, weight_decay)
        if momentum:
            old = momentum_buffer_list[i]
            buffer = grad if is_first_step else old.to(dtype) * momentum + grad * (1 - dampening)
            given.assign(old, buffer)
            grad = grad + buffer * momentum if nesterov else buffer
        given.assign(param, value - grad * _coefficient(lr, dtype))


def _adagrad(
    params: list[Tensor],
    grads: list[Tensor],
    state_sums: list[Tensor],
    state_steps: list[Tensor],
    lr: Number,
    lr_decay: float,
    weight_decay: float,
    eps: float,
    maximize: bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None:
    """aten::_fused_adagrad_ and its overload tensor_lr."""
    given = _Gradients(grads, grad_scale, found_inf, maximize)
    for i, param in enumerate(params):
        dtype = _computed_in(param.dtype)
        step = state_steps[i].reshape(()).to(torch.float64)
        decayed = (1 + (step - 1) * lr_decay).reciprocal() * _coefficient(lr, torch.float64)
        rate = stored(decayed.to(dtype))
        grad, value = given.decayed(i, param, weight_decay)
        total = state_sums[i].to(dtype) + grad * grad
        given.assign(state_sums[i], total)
        given.assign(param, value - rate * grad / (total.sqrt() + eps))


# By operator, whatever its overload. Arguments are those of the schema, in its order.
FUNCTIONS: dict[str, Callable[..., None]] = {
    "aten::_fused_adam_": functools.partial(_adam, False),
    "aten::_fused_adamw_": functools.partial(_adam, True),
    "aten::_fused_sgd_": _sgd,
    "aten::_fused_adagrad_": _adagrad,
}
