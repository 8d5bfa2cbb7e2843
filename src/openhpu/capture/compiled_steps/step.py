"""A training step, forward, backward, gradient clipping and optimizer, as one captured graph."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any, ParamSpec, TypeVar, overload

import torch
from torch import nn

from openhpu import _C
from openhpu.capture.captured import Captured, Inputs, Refused, dry_run
from openhpu.capture.compiled_steps.reachable import Reachable
from openhpu.capture.compiled_steps.step_state import Gradients, HostState, Places, hyperparameters, parameters
from openhpu.capture.hpu_graphs.outcome import Copies, Outcome
from openhpu.capture.hpu_graphs.parts import Whole
from openhpu.capture.hpu_graphs.structure import Unsuitable, Walk, of_type, overlaps, storages_of, walk_call
from openhpu.capture.hpu_graphs.undone import Uncapturable
from openhpu.capture.recent import Recent
from openhpu.compiler.client import client

P = ParamSpec("P")
R = TypeVar("R")

_UNUSED_LIMIT = 3
_REACHED_LIMIT, _SEEN_LIMIT = 16, 64
# These are looked into by what depends on them: `Reachable`, `hyperparameters`, `Places`.
_WHOLE = (nn.Module, torch.optim.Optimizer)


class StepError(RuntimeError):
    """The function can't be one graph; nothing that it changed on the device has remained changed."""


class _CapturedStep:
    """One capture, and the state that it depends on."""

    def __init__(self, captured: Captured, outcome: Outcome, places: Places, gradients: Gradients) -> None:
        self.captured = captured
        self.outcome = outcome
        self.places = places
        self.gradients = gradients
        self.used = False

    def fits(self) -> bool:
        return self.places.are_current() and self.gradients.fit()

    def __call__(self, given: Walk) -> Any:
        results = self.captured([tensor.detach() for tensor in given.tensors])
        if results is None:
            return None
        self.gradients.put()
        return self.outcome.give(given, results), True


class CompiledStep(Whole):
    """`function`, run as one graph. Made by `compile_step`."""

    def __init__(self, function: Callable[..., Any], max_captures: int) -> None:
        if not callable(function):
            raise TypeError(f"compile_step: expected a function, got {type(function).__name__}")
        if max_captures < 1:
            raise ValueError(f"compile_step: max_captures must be at least 1, got {max_captures}")
        functools.update_wrapper(self, function)
        self._function = function
        # By identity of the modules, optimizers and other objects among the arguments, which are kept with it.
        self._reached: Recent[tuple[int, ...], tuple[Reachable, list[Any]]] = Recent(_REACHED_LIMIT)
        self._captures: Recent[Hashable, _CapturedStep] = Recent(max_captures)
        self._seen: Recent[Hashable, None] = Recent(_SEEN_LIMIT)
        self._unused = 0  # captures in a row that have not been replayed
        self._counts = {"calls": 0, "eager": 0, "captured": 0, "replayed": 0}

    def statistics(self) -> dict[str, int]:
        """Calls: how many ran eagerly, were captured, were replayed; and captures held now."""
        return {**self._counts, "captures": len(self._captures)}

    def clear(self) -> None:
        """Drop all captures, with their memory."""
        self._captures.clear()
        self._seen.clear()
        self._reached.clear()

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self._call, (instance,))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call((), *args, **kwargs)

    def _call(self, bound: tuple[Any, ...], /, *args: Any, **kwargs: Any) -> Any:
        """A call of the function with the object that it is bound to, if it is a method, before its arguments."""
        self._counts["calls"] += 1
        given = walk_call("compile_step", self._function, args, kwargs, whole=_WHOLE, gradients=True)
        tensors = given.tensors
        if _C.is_capturing() or any(tensor.device.type != "hpu" for tensor in tensors):
            return self._run(bound, given)
        objects = [*bound, *given.found]
        identity = tuple(map(id, objects))
        reached = self._reached[identity][0] if identity in self._reached else None
        if reached is None or not reached.is_current():
            self._reached.add(identity, (Reachable(self._function, objects), objects))
            if reached is not None:
                self._captures.clear()
            return self._run(bound, given)  # optimizers make their state in their first step
        key = (
            identity, given.key, overlaps(tensors, storages_of(tensors)), hyperparameters(reached),
            torch.is_grad_enabled(), torch.is_inference_mode_enabled(),
            torch.is_autocast_enabled("hpu") and torch.get_autocast_dtype("hpu"),
        )  # fmt: skip
        step = self._captures.use(key)
        if step is not None and step.fits():
            done = step(given)
            if done is not None:
                step.used = True
                self._unused = 0
                self._counts["replayed"] += 1
                return done[0]
        if self._unused >= _UNUSED_LIMIT and not self._seen_before(key):
            return self._run(bound, given)  # an option that changes in each step: capturing would be for nothing
        return self._capture(key, reached, bound, given)

    def _run(self, bound: tuple[Any, ...], given: Walk) -> Any:
        self._counts["eager"] += 1
        args, kwargs = given.value
        try:
            results = Walk(self._function(*bound, *args, **kwargs), "its result")
        except Unsuitable as error:
            raise StepError(f"compile_step: {self._name()} can't run as one graph: {error}") from None
        return results.put([tensor.detach() for tensor in results.tensors])

    def _seen_before(self, key: Hashable) -> bool:
        seen = key in self._seen
        self._seen.add(key, None)
        return seen

    def _capture(self, key: Hashable, reached: Reachable, bound: tuple[Any, ...], given: Walk) -> Any:
        client.start_compiling()
        tensors = given.tensors
        before, gradients = HostState(reached), Gradients(reached)
        # The written arguments are not known beforehand, so none is tied to a copy.
        inputs = Inputs(tensors, frozenset(range(len(tensors))))
        graph = _C.CapturedGraph()
        try:
            if own := {id(p) for p in parameters(reached)} & {*map(id, tensors)}:
                place = given.place(next(tensor for tensor in tensors if id(tensor) in own))
                raise Uncapturable(f"{place} is a parameter of a module or optimizer that it uses; give it the module")
            copies = Copies(given, [*map(_static, tensors, inputs.static)])
            with dry_run(graph, inputs):
                args, kwargs = copies.value
                outcome = Outcome(copies, self._function(*bound, *args, **kwargs), anywhere=True)
        except (Refused, Uncapturable) as refused:
            before.restore()
            given.restore()
            if isinstance(refused.__cause__, torch.OutOfMemoryError):
                raise refused.__cause__ from None
            raise StepError(f"compile_step: {self._name()} can't run as one graph: {refused}") from refused.__cause__
        except BaseException:
            before.restore()
            raise
        if before.new_states():
            before.restore()
            given.restore()
            return self._run(bound, given)
        changed = before.changed()
        if changed is not None:
            before.restore()
            given.restore()
            raise StepError(
                f"compile_step: {self._name()} changes {changed}, which is on the host, where a replay changes "
                "nothing. Let schedulers step after the function; give the optimizer fused=True or capturable=True, "
                "and keep modules on hpu."
            )
        gradients.end()
        places = Places(reached)
        captured = Captured(graph, inputs, outcome.tensors, frozenset(places.storages() | gradients.storages()))
        outcome.hold([tensor.new_empty(0) for tensor in outcome.tensors])
        step = _CapturedStep(captured, outcome, places, gradients)
        del copies, args, kwargs
        self._captures.add(key, step)
        self._unused += 1
        graph.compile()
        self._counts["captured"] += 1
        done = step(given)
        assert done is not None
        return done[0]

    def _name(self) -> str:
        return getattr(self._function, "__qualname__", repr(self._function))


def _static(given: torch.Tensor, static: torch.Tensor) -> torch.Tensor:
    """The tensor of a capture, of the given one's type."""
    return of_type(static, type(given)).requires_grad_(given.requires_grad)


@overload
def compile_step(function: Callable[P, R], *, max_captures: int = 8) -> Callable[P, R]: ...
@overload
def compile_step(function: None = None, *, max_captures: int = 8) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def compile_step(function: Any = None, *, max_captures: int = 8) -> Any:
    """Let a training step (forward, backward, clipping, optimizer) run as one graph; usable as a decorator.

    The first call runs as it is. The next is captured, and later ones replay it with their own arguments: one command
    for the device, whose recipe is compiled in the background. Parameters, buffers, gradients and the optimizer's state
    stay the tensors that they are. Results are new tensors in each call, without history, or the arguments' own.

    A capture is made for each kind of arguments (tensors count by metadata, everything else by value), for the options
    of the optimizers and the training mode of the modules that the function reaches: through its closure, globals,
    bound object and arguments. Other Python values count as they were at the capture. The function's Python code does
    not run in a replay. At most `max_captures` captures are held.

    Raises StepError, with the operator and its line, if the function reads a value on the host, needs the CPU, or
    changes something on the host.
    """
    if function is None:
        return functools.partial(compile_step, max_captures=max_captures)
    return CompiledStep(function, max_captures)
