"""torch.optim on hpu takes its fused form by default: one operator per step and dtype, not dozens per parameter.

PyTorch leaves `fused` at None and then chooses the foreach form. Hooks set it to True for the duration of each step, in
parameter groups whose parameters are all on hpu. Before and after the step the groups are unchanged. They are saved
with None, and a later `foreach=True` holds. torch.amp.GradScaler unscales and skips steps as for any optimizer, so that
libraries notice a skipped step. An explicit `fused` or `foreach` stays. `fused=True` takes scale and overflow from the
GradScaler without a wait.
"""

import weakref
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

# Exactly these: a subclass may have a step of its own that expects the unfused state.
_FUSABLE = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad)
_PLAIN = (torch.Tensor, torch.nn.Parameter)
Group = dict[str, Any]


class _Known:
    """Groups of an optimizer whose parameters were looked at, and may be stepped together."""

    def __init__(self) -> None:
        # By identity; with their parameters, and how many they were.
        self.groups: dict[int, tuple[Group, list[Any], int]] = {}
        self.state = 0  # the identity of the optimizer's state
        self.changed: list[Group] = []  # of the step that is under way, or has raised

    def has(self, group: Group) -> bool:
        known = self.groups.get(id(group))
        return known is not None and known[1] is group["params"] and known[2] == len(group["params"])


_known: weakref.WeakKeyDictionary[torch.optim.Optimizer, _Known] = weakref.WeakKeyDictionary()


def install() -> None:
    """Register the hooks, which PyTorch calls for every optimizer."""
    register_optimizer_step_pre_hook(_before_step)
    register_optimizer_step_post_hook(put_back)


def _before_step(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if type(optimizer) not in _FUSABLE:
        return
    known = _known.get(optimizer)
    if known is None:
        known = _known[optimizer] = _Known()
        optimizer.register_state_dict_pre_hook(put_back)
    put_back(optimizer)
    if known.state != id(optimizer.state) or len(known.groups) > len(optimizer.param_groups):
        known.groups.clear()  # a state was loaded, or groups were replaced
        known.state = id(optimizer.state)
    for group in optimizer.param_groups:
        if not _is_undecided(group):
            continue
        if not known.has(group):
            if not _can_be_fused(group):
                continue
            _move_steps(optimizer, group)
            # Until each has a gradient, one of them may turn out to be sparse.
            if all(parameter.grad is not None for parameter in group["params"]):
                known.groups[id(group)] = group, group["params"], len(group["params"])
        group["fused"] = True
        known.changed.append(group)


def put_back(optimizer: Any, *_: Any) -> None:
    """Restore the options after a step, also one that raised an exception."""
    known = _known.get(optimizer)
    if known is None:
        return
    for group in known.changed:
        if group["fused"] is True:
            group["fused"] = None
    known.changed.clear()


def _is_undecided(group: Group) -> bool:
    return (
        group.get("fused", False) is None
        and group.get("foreach") is None
        and not group.get("differentiable", False)
        and not any(isinstance(beta, torch.Tensor) for beta in group.get("betas", ()))
        and any(parameter.device.type == "hpu" for parameter in group["params"][:1])
    )


def _can_be_fused(group: Group) -> bool:
    return all(
        parameter.device.type == "hpu"
        and parameter.is_floating_point()
        and type(parameter) in _PLAIN
        and (parameter.grad is None or parameter.grad.layout is torch.strided)
        for parameter in group["params"]
    )


def _move_steps(optimizer: Any, group: Group) -> None:
    """Steps counted so far (a loaded state) go where the fused kernel reads them: to the device, as float32."""
    for parameter in group["params"]:
        state = optimizer.state.get(parameter)
        step = state.get("step") if state else None
        if isinstance(step, torch.Tensor):
            state["step"] = step.to(device=parameter.device, dtype=torch.float32)
