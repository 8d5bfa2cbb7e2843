"""torch.optim on hpu takes its fused form by default: one operator per step and dtype, not dozens per parameter.

PyTorch leaves `fused` at None and then chooses the foreach form. A hook before each optimizer's step turns that
None into True for the parameter groups whose parameters are all on hpu. An explicit `fused` or `foreach` stays.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

# Exactly these: a subclass may have a step of its own that expects the unfused state.
_FUSABLE = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad)
_PLAIN = (torch.Tensor, torch.nn.Parameter)


def install() -> None:
    """Register the hook, which PyTorch calls for every optimizer."""
    register_optimizer_step_pre_hook(_before_step)


def _before_step(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if type(optimizer) not in _FUSABLE:
        return
    changed = False
    for group in optimizer.param_groups:
        if group.get("fused", False) is None and _can_be_fused(group):
            group["fused"] = True
            _move_steps(optimizer, group)
            changed = True
    if changed and all(group["fused"] for group in optimizer.param_groups):
        # torch.amp.GradScaler hands scale and overflow to fused optimizers instead of waiting for the overflow.
        optimizer._step_supports_amp_scaling = True


def _can_be_fused(group: dict[str, Any]) -> bool:
    return (
        group.get("foreach") is None
        and not group.get("differentiable", False)
        and not any(isinstance(beta, torch.Tensor) for beta in group.get("betas", ()))
        and all(
            parameter.device.type == "hpu"
            and parameter.is_floating_point()
            and type(parameter) in _PLAIN
            and (parameter.grad is None or parameter.grad.layout is torch.strided)
            for parameter in group["params"]
        )
    )


def _move_steps(optimizer: Any, group: dict[str, Any]) -> None:
    """Steps counted so far (a loaded state) go where the fused kernel reads them: to the device, as float32."""
    for parameter in group["params"]:
        state = optimizer.state.get(parameter)
        step = state.get("step") if state else None
        if isinstance(step, torch.Tensor):
            state["step"] = step.to(device=parameter.device, dtype=torch.float32)
