"""The state that a training step changes: parameters, buffers, gradients, and the state of optimizers."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import torch

from openhpu.capture.compiled_steps.reachable import Reachable
from openhpu.capture.optimizer_options import before_options

Container = dict[Any, Any]


def hyperparameters(reached: Reachable) -> Hashable:
    """The values of all options of all optimizers, and which modules are in training mode."""
    for optimizer in reached.optimizers:
        for put_back in before_options:
            put_back(optimizer)
    options = tuple(
        (name, _value(value))
        for optimizer in reached.optimizers
        for group in optimizer.param_groups
        for name, value in group.items()
        if name != "params"
    )
    return options, tuple(module.training for module in _submodules(reached))


def _value(value: Any) -> Hashable:
    if isinstance(value, torch.Tensor):
        return "tensor", id(value)  # its contents are read by each replay
    if isinstance(value, list):
        return tuple(value)
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return type(value), value


def _submodules(reached: Reachable) -> Iterator[torch.nn.Module]:
    for module in reached.modules:
        yield from module.modules()


def parameters(reached: Reachable) -> list[torch.Tensor]:
    """Everything that may get a gradient, each once."""
    found: dict[int, torch.Tensor] = {}
    for module in reached.modules:
        found.update((id(p), p) for p in module.parameters())
    for optimizer in reached.optimizers:
        for group in optimizer.param_groups:
            found.update((id(p), p) for p in group["params"])
    return list(found.values())


class Places:
    """Where the state lies: which tensors the containers of modules and optimizers hold, at which addresses.

    A captured step is tied to these places.
    """

    def __init__(self, reached: Reachable) -> None:
        self._entries = [
            (container, name, value, value.data_ptr() if value.device.type == "hpu" else None)
            for container, name, value in _tensors(reached)
        ]

    def are_current(self) -> bool:
        """Whether everything lies where it lay."""
        for container, name, value, address in self._entries:
            if container.get(name) is not value or (address is not None and value.data_ptr() != address):
                return False
        return True

    def storages(self) -> set[int]:
        """The addresses of the storages."""
        return {
            value.untyped_storage().data_ptr() for _, _, value, address in self._entries if address is not None
        }  # fmt: skip


def _tensors(reached: Reachable) -> Iterator[tuple[Container, Any, torch.Tensor]]:
    for module in _submodules(reached):
        for container in (module._parameters, module._buffers):
            for name, value in container.items():
                if value is not None:
                    yield container, name, value
    for optimizer in reached.optimizers:
        for state in optimizer.state.values():
            for name, value in state.items():
                if isinstance(value, torch.Tensor):
                    yield state, name, value
        for group in optimizer.param_groups:
            for name, value in group.items():
                if isinstance(value, torch.Tensor):
                    yield group, name, value


class HostState:
    """The part of the state on the host, which a replay can't change: numbers and CPU tensors."""

    def __init__(self, reached: Reachable) -> None:
        self._reached = reached
        self._options = hyperparameters(reached)
        self._kept = dict(self._entries())
        self._states = [
            (optimizer, {p: dict(state) for p, state in optimizer.state.items()}) for optimizer in reached.optimizers
        ]
        self._grads = [(p, p.grad) for p in parameters(reached)]

    def _entries(self) -> Iterator[tuple[Hashable, Any]]:
        for optimizer in self._reached.optimizers:
            name = type(optimizer).__name__
            for p, state in optimizer.state.items():
                for key, value in state.items():
                    if isinstance(value, torch.Tensor):
                        if value.device.type != "hpu":
                            yield (f"{name}'s state {key!r}", id(p)), (id(value), value._version)
                    elif isinstance(value, int | float | bool | type(None)):
                        yield (f"{name}'s state {key!r}", id(p)), value
        for module in _submodules(self._reached):
            for key, value in (*module._buffers.items(), *module._parameters.items()):
                if value is not None and value.device.type != "hpu":
                    yield (f"{type(module).__name__}'s {key!r}", id(module)), (id(value), value._version)

    def new_states(self) -> bool:
        """Whether an optimizer has made state since."""
        return any(
            set(optimizer.state) != set(before)
            or any(set(optimizer.state[p]) != set(state) for p, state in before.items())
            for optimizer, before in self._states
        )

    def changed(self) -> str | None:
        """The changes since then, in words; None if there are none."""
        if hyperparameters(self._reached) != self._options:
            return "an option of an optimizer (lr, ...) or a module's training mode"
        now = dict(self._entries())
        for key, value in now.items():
            if key in self._kept and self._kept[key] != value:
                return str(key[0])  # type: ignore[index]
        return None

    def restore(self) -> None:
        """Put gradients and the optimizers' entries back."""
        for p, grad in self._grads:
            p.grad = grad
        for optimizer, before in self._states:
            for p in [p for p in optimizer.state if p not in before]:
                del optimizer.state[p]
            for p, state in before.items():
                optimizer.state[p].clear()
                optimizer.state[p].update(state)


class Gradients:
    """The gradients before and after a captured step.

    A step that accumulates can be replayed where the gradients are those that it found; one that begins with
    `zero_grad()`, on any.
    """

    def __init__(self, reached: Reachable) -> None:
        self._parameters = parameters(reached)
        self._before = [p.grad for p in self._parameters]
        self._after: list[torch.Tensor | None] = []
        self._needed: list[tuple[torch.Tensor, torch.Tensor | None]] = []
        self._set: list[tuple[torch.Tensor, torch.Tensor | None]] = []

    def end(self) -> None:
        """The step has run."""
        for p, before in zip(self._parameters, self._before, strict=True):
            after = p.grad
            # One that was replaced had been dropped, by zero_grad().
            if before is None or after is before:
                self._needed.append((p, before))
            self._set.append((p, after))
        self._before = []

    def fit(self) -> bool:
        """Whether the gradients are such as the step found, as far as it matters."""
        return all(p.grad is grad for p, grad in self._needed)

    def put(self) -> None:
        """Leave the gradients that the step leaves."""
        for p, grad in self._set:
            if p.grad is not grad:
                p.grad = grad

    def storages(self) -> set[int]:
        """The addresses of the storages of those that the step leaves."""
        return {grad.untyped_storage().data_ptr() for _, grad in self._set if grad is not None}
