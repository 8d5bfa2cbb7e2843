"""Optimizers with steps that are operators on lists of tensors: torch.ops.hpu.optimizer_* and similar ones."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

_AT_LEAST_0 = ("lr", "lr_decay", "momentum", "weight_decay", "initial_accumulator_value", "eps")


class ListOptimizer(Optimizer):
    """An optimizer that steps each group's parameters, those with gradients, together.

    Raises ValueError for a rate or the like below 0.
    """

    def __init__(self, params: Iterable[Any], **defaults: Any) -> None:
        check_range(type(self).__name__, **{name: defaults[name] for name in defaults if name in _AT_LEAST_0})
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """One step, for parameters that have gradients. Returns the result of `closure`, which is called before."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.before_groups()
        for group in self.param_groups:
            params = [param for param in group["params"] if param.grad is not None]
            if params:
                grads: list[Any] = [param.grad for param in params]
                self.step_group(group, params, grads)
        return loss

    def __setstate__(self, state: dict[str, Any]) -> None:
        """As torch.optim's. A group that another optimizer saved, such as AdamW, gets this one's defaults."""
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)

    def before_groups(self) -> None:
        """Called once in each step, before its groups."""

    def step_group(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        """The step of one group."""
        raise NotImplementedError

    def states(self, params: list[Tensor], name: str, value: float = 0.0) -> list[Tensor]:
        """The state `name` of each parameter, filled with `value` where it is new."""
        for param in params:
            if name not in self.state[param]:
                self.state[param][name] = torch.full_like(param, value, memory_format=torch.preserve_format)
        return [self.state[param][name] for param in params]


def number(value: float | Tensor, like: Tensor) -> Tensor:
    """A number as a float32 tensor [1] on the device of `like`."""
    if isinstance(value, Tensor):
        return value.to(device=like.device, dtype=torch.float32).reshape(1)
    return torch.full((1,), float(value), dtype=torch.float32, device=like.device)


def check_range(name: str, **numbers: float | Tensor) -> None:
    """Raise ValueError for a number below 0; a tensor's is not looked at, as that would wait for the device."""
    for argument, value in numbers.items():
        if not isinstance(value, Tensor) and value < 0.0:
            raise ValueError(f"{name}: {argument} is {value}; expected a number of at least 0")


class FusedSGD(torch.optim.SGD):
    """torch.optim.SGD as one operator for all parameters. Raises ValueError for numbers out of range."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        check_range("FusedSGD", lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("FusedSGD: nesterov is True; expected a momentum above 0 and no dampening with it")
        super().__init__(params, lr, momentum, dampening, weight_decay, nesterov, fused=True)


class FusedAdagrad(ListOptimizer):
    """torch.optim.Adagrad as one operator for all parameters, which has one number of steps, as on a Gaudi.

    So `lr_decay` counts the steps of the group, also for a parameter without a gradient in some of them. PyTorch counts
    each parameter's. Raises ValueError for numbers out of range.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
    ) -> None:
        super().__init__(
            params,
            lr=lr,
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            eps=eps,
        )

    def step_group(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        """torch.optim.Adagrad's."""
        done = group["step"] = group.get("step", -1) + 1
        sums = self.states(params, "sum", group["initial_accumulator_value"])
        torch.ops.hpu.habanaOptimizerFusedAdagrad(
            grads,
            params,
            sums,
            number(done, params[0]),
            number(group["lr"], params[0]),
            group["weight_decay"],
            group["lr_decay"],
            group["eps"],
        )


class FusedResourceApplyMomentum(ListOptimizer):
    """Momentum as TensorFlow has it: buffer = momentum * buffer - lr * gradient, parameter += buffer.

    `weight_decay`: this times the parameter is part of the gradient, as in torch.optim.SGD. FusedLars adds it before
    the step. Raises ValueError for numbers out of range.
    """

    def __init__(self, params: Iterable[Any], lr: float | Tensor, momentum: float, weight_decay: float = 0.0) -> None:
        super().__init__(params, lr=lr, momentum=momentum, weight_decay=weight_decay)

    def step_group(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        """torch.optim.SGD's with momentum, for a constant rate."""
        decay = group["weight_decay"]
        if decay:
            grads = list(torch._foreach_add(grads, params, alpha=decay))
        buffers = self.states(params, "momentum_buffer")
        pairs = [tensor for pair in zip(params, buffers, strict=True) for tensor in pair]
        steps = list(torch._foreach_mul(grads, group["lr"]))
        torch.ops.hpu.optimizer_resource_apply_momentum(pairs, steps, group["momentum"])


class FusedLamb(ListOptimizer):
    """LAMB (Y. You et al., 2020), with gradients clipped by their norm together first.

    Without weight decay a step is Adam's unless `use_lamb`. `fused` and `set_grad_none` are those of Gaudi's: the step
    is fused anyway, and `zero_grad` drops gradients if set_grad_none. Raises ValueError for numbers out of range,
    RuntimeError for amsgrad.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        amsgrad: bool = False,
        adam_w_mode: bool = True,
        grad_averaging: bool = True,
        set_grad_none: bool = True,
        max_grad_norm: float = 1.0,
        use_lamb: bool = False,
        fused: bool = False,
        dtype: torch.dtype | None = None,
    ) -> None:
        if amsgrad:
            raise RuntimeError("FusedLamb: amsgrad is True; expected False, as LAMB has no such form")
        if not adam_w_mode:
            raise RuntimeError("FusedLamb: adam_w_mode is False; expected True, weight decay is part of the step")
        self.set_grad_none = set_grad_none
        self._factor: Tensor | None = None
        super().__init__(
            params,
            lr=lr,
            bias_correction=bias_correction,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            grad_averaging=grad_averaging,
            max_grad_norm=max_grad_norm,
            use_lamb=use_lamb,
        )

    def zero_grad(self, set_to_none: bool | None = None) -> None:  # type: ignore[override]
        """Drop gradients, or fill them with 0."""
        super().zero_grad(self.set_grad_none if set_to_none is None else set_to_none)

    def before_groups(self) -> None:
        """The norm is that of all groups' gradients."""
        grads: list[Any] = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
        limit = self.defaults["max_grad_norm"]
        self._factor = torch.ops.hpu.optimizer_lamb_fused_norm(grads, limit) if grads and limit > 0 else None

    def step_group(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        """Moments and Adam's steps, then each step scaled by the norms of weight and step."""
        count = group["step"] = group.get("step", 0) + 1
        beta1, beta2 = group["betas"]
        corrections = (1 - beta1**count, 1 - beta2**count) if group["bias_correction"] else (1.0, 1.0)
        weight_norms, adam_norms = ([torch.empty(1, device=p.device) for p in params] for _ in range(2))
        steps = [torch.empty_like(p) for p in params]
        like = params[0]
        torch.ops.hpu.optimizer_lamb_phase1(
            gradients=grads,
            weights=params,
            exp_avg=self.states(params, "exp_avg"),
            exp_avg_sq=self.states(params, "exp_avg_sq"),
            out_weight_norms=weight_norms,
            out_adam_norms=adam_norms,
            out_adam_steps=steps,
            clip_global_grad_norm=number(1.0, like) if self._factor is None else self._factor,
            grad_averaging=int(group["grad_averaging"]),
            beta1=beta1,
            beta2=beta2,
            epsilon=group["eps"],
            bias_correction1=number(corrections[0], like),
            bias_correction2=number(corrections[1], like),
            weight_decay=group["weight_decay"],
        )
        torch.ops.hpu.optimizer_lamb_phase2(
            params,
            adam_norms,
            weight_norms,
            steps,
            -number(group["lr"], like),
            group["weight_decay"],
            group["use_lamb"],
        )


class FusedLars:
    """Scales gradients by LARS (Y. You et al., 2017) before the step of another optimizer, which it wraps.

    `skip_mask`: for each parameter, in order, 0 where its gradient is left as it is.
    """

    def __init__(self, optimizer: Optimizer, skip_mask: Sequence[int], eeta: float = 0.001, eps: float = 1e-8) -> None:
        self.optimizer, self.skip_mask, self.eeta, self.eps = optimizer, list(skip_mask), eeta, eps
        count = sum(len(group["params"]) for group in optimizer.param_groups)
        if len(self.skip_mask) != count:
            raise ValueError(
                f"FusedLars: skip_mask has {len(self.skip_mask)} numbers; expected {count}, one a parameter"
            )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.optimizer, name)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Scale the gradients, with weight decay added, and step without weight decay."""
        masks = iter(self.skip_mask)
        decays = []
        for group in self.optimizer.param_groups:
            decays.append(group.get("weight_decay", 0.0))
            kept = [pair for pair in zip(group["params"], masks, strict=False) if pair[0].grad is not None]
            if kept:
                params = [param for param, _ in kept]
                torch.ops.hpu.optimizer_lars(
                    params,
                    [param.grad for param in params],
                    [mask for _, mask in kept],
                    self.eeta,
                    decays[-1],
                    self.eps,
                    number(1.0, params[0]),
                )
            if "weight_decay" in group:
                group["weight_decay"] = 0.0
        try:
            return self.optimizer.step(closure)  # type: ignore[arg-type]
        finally:
            for group, decay in zip(self.optimizer.param_groups, decays, strict=True):
                if "weight_decay" in group:
                    group["weight_decay"] = decay
