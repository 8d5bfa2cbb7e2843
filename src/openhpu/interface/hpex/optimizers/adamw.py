"""AdamW as one operator for all parameters."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from openhpu.interface.gaudi_ops.fp8 import is_fp8
from openhpu.interface.hpex.optimizers.lists import ListOptimizer, number


class FusedAdamW(ListOptimizer):
    """torch.optim.AdamW whose step is one operator.

    `eps` is 1e-6 by default. Without `bias_correction` moments enter as they are. `moments_dtype` is that of the
    moments, a dtype or one for each of the two: bfloat16, or fp8 with a scale for each tensor, else float32.
    Raises ValueError for numbers out of range.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        bias_correction: bool = True,
        moments_dtype: torch.dtype | tuple[torch.dtype, torch.dtype] | None = None,
    ) -> None:
        for beta in betas:
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"FusedAdamW: betas are {betas}; expected two numbers of at least 0, less than 1")
        pair = moments_dtype if isinstance(moments_dtype, tuple) else (moments_dtype, moments_dtype)
        for dtype in pair:
            if dtype is not None and not dtype.is_floating_point:
                raise ValueError(f"FusedAdamW: moments_dtype is {moments_dtype}; expected floating-point dtypes")
        self._moments = pair
        super().__init__(
            params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, bias_correction=bias_correction
        )

    def step_group(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor]) -> None:
        """torch.optim.AdamW's."""
        for param, grad in zip(params, grads, strict=True):
            if grad.is_sparse:
                raise RuntimeError("FusedAdamW: a gradient is sparse; expected dense ones, or use SparseAdam")
            if not self.state[param]:
                self._begin(param)
        if self._moments == (None, None) and group["bias_correction"]:
            self._step_as_pytorch(group, params)
        else:
            self._step(group, params)

    def _begin(self, param: Tensor) -> None:
        state = self.state[param]
        state["step"] = torch.zeros((), dtype=torch.float32, device=param.device)
        for name, dtype in zip(("exp_avg", "exp_avg_sq"), self._moments, strict=True):
            state[name] = torch.zeros_like(param, dtype=dtype or param.dtype, memory_format=torch.preserve_format)
            if is_fp8(dtype):
                state[name + "_scale"] = torch.ones(1, dtype=torch.float32, device=param.device)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As torch.optim's, but a moment keeps the dtype that this optimizer gives it, wherever the state was saved."""
        super().load_state_dict(state_dict)
        saved = [key for group in state_dict["param_groups"] for key in group["params"]]
        params = [param for group in self.param_groups for param in group["params"]]
        kinds = dict(zip(("exp_avg", "exp_avg_sq"), self._moments, strict=True))
        for key, param in zip(saved, params, strict=True):
            for name, value in state_dict["state"].get(key, {}).items():
                dtype = (kinds[name] or param.dtype) if name in kinds else torch.float32
                self.state[param][name] = torch.as_tensor(value).detach().clone().to(param.device, dtype)
        for group in self.param_groups:
            steps = [self.state[param]["step"] for param in group["params"] if "step" in self.state[param]]
            if steps and "step" not in group:  # of an optimizer that counts for each parameter
                group["step"] = max(int(step) for step in steps)

    def _step_as_pytorch(self, group: dict[str, Any], params: list[Tensor]) -> None:
        beta1, beta2 = group["betas"]
        by_kind: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
        for param in params:
            by_kind.setdefault((param.device, param.dtype), []).append(param)
        for same in by_kind.values():
            steps = self.states(same, "step")
            torch._foreach_add_(steps, 1)
            grads: list[Any] = [param.grad for param in same]
            torch._fused_adamw_(
                same,
                grads,
                self.states(same, "exp_avg"),
                self.states(same, "exp_avg_sq"),
                [],
                steps,
                lr=group["lr"],
                beta1=beta1,
                beta2=beta2,
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                amsgrad=False,
                maximize=False,
            )

    def _step(self, group: dict[str, Any], params: list[Tensor]) -> None:
        beta1, beta2 = group["betas"]
        eps = group["eps"]
        group["step"] = count = group.get("step", 0) + 1
        torch._foreach_add_(self.states(params, "step"), 1)
        factor = 1.0
        if group["bias_correction"]:
            second = math.sqrt(1 - beta2**count)
            factor = second / (1 - beta1**count)
            eps *= second
        rate = number(group["lr"], params[0])
        first_scales, second_scales = (
            self.states(params, name) if is_fp8(dtype) else None
            for name, dtype in zip(("exp_avg_scale", "exp_avg_sq_scale"), self._moments, strict=True)
        )
        torch.ops.hpu.optimizer_adamw(
            gradient_vec=[param.grad for param in params],
            weight_vec=params,
            exp_avg_vec=self.states(params, "exp_avg"),
            exp_avg_sq_vec=self.states(params, "exp_avg_sq"),
            neg_step_t=rate * -factor,
            beta1=beta1,
            beta2=beta2,
            epsilon=eps,
            weight_decay=1 - rate * group["weight_decay"],
            has_weight_decay=group["weight_decay"] != 0,
            exp_avg_scales=first_scales,
            exp_avg_sq_scales=second_scales,
        )
