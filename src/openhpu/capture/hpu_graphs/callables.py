"""Graphs for training: the forward and the backward of a module or function, each one graph, with an autograd node."""

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from openhpu.capture.hpu_graphs.account import Capturing
from openhpu.capture.hpu_graphs.capture import HPUGraph
from openhpu.capture.hpu_graphs.checked import Plain, check_of
from openhpu.capture.hpu_graphs.outcome import Copies, Outcome
from openhpu.capture.hpu_graphs.parts import Whole
from openhpu.capture.hpu_graphs.structure import Unsuitable, Walk, static_copy, walk_call
from openhpu.capture.hpu_graphs.undone import Busy, HostGenerators, OneWarning, Uncapturable, undone_capture

if TYPE_CHECKING:
    from openhpu.capture.hpu_graphs.check import Check

Tensors = tuple[torch.Tensor, ...]

_PATIENCE_S = 60.0  # for a capture on another thread


def _returned(grad: torch.Tensor | None, leaf: bool) -> torch.Tensor | None:
    """A gradient as autograd gets it. A leaf would keep the graph's own memory as its `grad`."""
    if grad is None:
        return None
    return grad.clone() if leaf else grad.detach()


class GraphedCall(Whole):
    """A function and its backward, captured for arguments of one kind. It is called with the walk through others.

    `parameters` are tensors that the function uses beside its arguments and that may need gradients. Captures have no
    effect beside the graphs. Between a forward and its backward the graph must not run forward again: what the backward
    reads would be overwritten, as would be the results, which are the same memory in each call. Raises Uncapturable
    where forward or backward is nothing that a graph can hold, and Busy where another thread captures for longer than
    `patience_s` seconds.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        parameters: Sequence[torch.Tensor],
        given: Walk,
        allow_unused_input: bool = False,
        patience_s: float = 0.0,
    ) -> None:
        self._parameters = tuple(p for p in parameters if p.requires_grad)
        inputs = Copies(given, [static_copy(tensor) for tensor in given.tensors])
        self.arguments = inputs.value
        self._inputs = tuple(inputs.tensors)
        self._forward = HPUGraph()
        self._backward = HPUGraph()
        capturing = Capturing(function)
        self._generators = HostGenerators()
        with torch.enable_grad():
            results = self._capture_forward(function, inputs, patience_s)
            self._capture_backward(results, allow_unused_input, patience_s)
        capturing.done(self._forward, self._backward, given=given)
        self._check = check_of(function, self._forward, outcome=self._outcome)
        self._check_backward: Check | None = None
        if self._check is not None:
            self._function = function
            self._before = inputs.before
            self._calls = 0
            if self._grads_in:
                self._check_backward = check_of(function, self._backward, ", backward", forward=self._check)
        self._results = tuple(result.detach() for result in results)
        self._differentiable = tuple(result.requires_grad for result in results)
        self._node = self._make_node()

    def _capture_forward(self, function: Callable[..., Any], inputs: Copies, patience_s: float) -> Tensors:
        with undone_capture(self._forward, self._generators, patience_s=patience_s):
            self._outcome = Outcome(inputs, function(*inputs.value[0], **inputs.value[1]))
            self._written = inputs.written()
        results = tuple(self._outcome.tensors)
        self._outcome.hold([result.detach() for result in results], again=True)
        return results

    def _capture_backward(self, results: Tensors, allow_unused: bool, patience_s: float) -> None:
        sources = [t for t in (*self._inputs, *self._parameters) if t.requires_grad]
        targets = [result for result in results if result.requires_grad]
        self._grads_out = tuple(torch.zeros_like(t, requires_grad=False) for t in targets)
        self._grads_in: tuple[torch.Tensor | None, ...] = ()
        if not targets or not sources:
            return
        capture = undone_capture(self._backward, self._generators, patience_s=patience_s)
        with capture, _without_hooks(sources):
            grads = torch.autograd.grad(targets, sources, self._grads_out, allow_unused=allow_unused)
        found = iter(grads)
        self._grads_in = tuple(next(found) if t.requires_grad else None for t in (*self._inputs, *self._parameters))

    def _make_node(self) -> Any:
        call = self

        class Graphed(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *tensors: torch.Tensor) -> Tensors:
                ctx.set_materialize_grads(False)
                ctx.leaves = [tensor.is_leaf for tensor in tensors[: len(call._inputs)]]
                for static, given in zip(call._inputs, tensors, strict=False):
                    if static is not given:
                        static.detach().copy_(given)
                call._replay_forward(ctx)
                for i in call._written:
                    tensors[i].copy_(call._inputs[i])
                results = tuple(result.detach() for result in call._results)
                fixed = [r for r, needed in zip(results, call._differentiable, strict=True) if not needed]
                ctx.mark_non_differentiable(*fixed)
                return results

            @staticmethod
            @torch.autograd.function.once_differentiable
            def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
                if not call._grads_in:
                    return (None,) * (len(call._inputs) + len(call._parameters))
                needed = [g for g, wanted in zip(grads, call._differentiable, strict=True) if wanted]
                for static, given in zip(call._grads_out, needed, strict=True):
                    if given is None:
                        static.zero_()
                    elif static.data_ptr() != given.data_ptr():
                        static.copy_(given)
                call._keep_gradients()
                call._replay_backward(ctx)
                return call._gradients(ctx.leaves)

        return Graphed

    def _replay_forward(self, ctx: Any) -> None:
        if self._check is None:
            self._forward.replay()
            return
        self._calls += 1

        def prepare(graph: HPUGraph) -> Callable[[], Plain]:
            inputs = Copies(self._before, self._inputs)

            def call() -> Plain:
                with torch.enable_grad():
                    outcome = Outcome(inputs, self._function(*inputs.value[0], **inputs.value[1]))
                return Plain(outcome.tensors, [(self._inputs[i], self._inputs[i]) for i in self._written], outcome)

            return call

        def replay() -> list[torch.Tensor]:
            self._forward.replay()
            return [*self._results]

        self._check.run(prepare, replay, self._before.value)
        ctx.plain = self._check.plain
        ctx.plain_graph = self._check.plain_graph
        ctx.call = self._calls
        self._check.plain = ctx.plain and [result.detach() for result in ctx.plain]

    def _replay_backward(self, ctx: Any) -> None:
        if not self._check_backward or ctx.plain is None:
            self._backward.replay()
            return

        def call() -> Plain:
            targets = [result for result in ctx.plain if result.requires_grad]
            sources = [t for t in (*self._inputs, *self._parameters) if t.requires_grad]
            with _without_hooks(sources):
                grads = torch.autograd.grad(targets, sources, self._grads_out, allow_unused=True)
            return Plain([grad for grad in grads if grad is not None], [])

        def replay() -> list[torch.Tensor]:
            self._backward.replay()
            return [grad for grad in self._grads_in if grad is not None]

        again = "forward ran again before this backward, which reads what the last forward has left"
        why = again if ctx.call != self._calls else ""
        self._check_backward.run(lambda _: call, replay, why=why, forward=ctx.plain_graph)
        ctx.plain = ctx.plain_graph = None

    def _keep_gradients(self) -> None:
        """Gradients that a caller still accumulates into, and that lie where the next ones go, move elsewhere."""
        for parameter, grad in zip(self._parameters, self._grads_in[len(self._inputs) :], strict=True):
            held = parameter.grad
            if held is not None and grad is not None and held.data_ptr() == grad.data_ptr():
                parameter.grad = held.clone()

    def _gradients(self, leaves: list[bool]) -> tuple[torch.Tensor | None, ...]:
        inputs = [_returned(grad, leaf) for grad, leaf in zip(self._grads_in, leaves, strict=False)]
        rest = self._grads_in[len(self._inputs) :]
        return (*inputs, *(_returned(grad, False) for grad in rest))

    def __call__(self, walk: Walk) -> Any:
        given = walk.tensors
        if len(given) != len(self._inputs):
            raise RuntimeError(
                f"this graph was captured with {len(self._inputs)} tensors and is called with {len(given)}"
            )
        with_gradients = torch.is_grad_enabled()
        for i, (static, tensor) in enumerate(zip(self._inputs, given, strict=True)):
            if with_gradients and tensor.requires_grad and not static.requires_grad:
                raise RuntimeError(
                    f"input {i} was captured without a gradient and is now given with requires_grad, so that its "
                    "gradient would be missing. Capture with a tensor that requires a gradient."
                )
            if static.shape != tensor.shape or static.dtype != tensor.dtype:
                raise RuntimeError(
                    f"input {i} was captured with shape {tuple(static.shape)} and dtype {static.dtype} and is now "
                    f"given with shape {tuple(tensor.shape)} and dtype {tensor.dtype}. A graph is replayed with the "
                    "shapes and dtypes of its capture; ModuleCacher captures a graph for each."
                )
        results = self._node.apply(*given, *self._parameters)
        if self._check:
            self._check.note_given(results)
        return self._outcome.give(walk, results)


@contextlib.contextmanager
def _without_hooks(tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    """Autograd calls hooks of parameters in each backward, with gradients from the graph: it holds none of them."""
    hooks = [t._backward_hooks for t in tensors if t._backward_hooks]
    held = [dict(each) for each in hooks]
    for each in hooks:
        each.clear()
    try:
        yield
    finally:
        for each, before in zip(hooks, held, strict=True):
            each.update(before)


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    warmups: int = 0,
    allow_unused_input: bool = False,
    asynchronous: bool = False,
    disable_tensor_cache: bool = False,
    dry_run: bool = False,
) -> Any:
    """Graphs of a module's or function's forward and backward, for arguments like `sample_args`, a tuple of tensors.

    A module is returned with its forward replaced: in the mode (train or eval) in which it was captured it replays, in
    the other it runs as before. Of a function a graphed one is returned. A tuple of callables takes a tuple of tuples
    and returns a tuple. `warmups` calls run before the captures. Results and gradients are the same memory in each
    call. `asynchronous`, `disable_tensor_cache` and `dry_run` are accepted: a replay never waits, a capture has no
    effects beside the graph, and what backward reads has to stay. What reads a value on the host, in its forward or its
    backward, is returned as it is, with a RuntimeWarning that names the line.

    Raises TypeError for sample arguments that are no tuple of tensors on hpu, RuntimeError for a module with hooks or
    with buffers that need gradients.
    """
    single = not isinstance(callables, tuple)
    functions = (callables,) if single else callables
    samples = (sample_args,) if single else sample_args
    if not isinstance(samples, tuple) or len(samples) != len(functions):
        raise TypeError(
            f"make_graphed_callables: expected a tuple with the sample arguments of each of the {len(functions)} "
            f"callables, got {type(sample_args).__name__}"
        )
    for function, args in zip(functions, samples, strict=True):
        _check(function, args)
    for function, args in zip(functions, samples, strict=True):
        for _ in range(warmups):
            with contextlib.suppress(Unsuitable):  # the capture says so
                results = [r for r in Walk(function(*args)).tensors if r.requires_grad]
                if results:
                    sources = [t for t in (*args, *_parameters(function)) if t.requires_grad]
                    zeros = [torch.zeros_like(r) for r in results]
                    torch.autograd.grad(results, sources, zeros, allow_unused=True)
    graphed = tuple(_graph(f, a, allow_unused_input) for f, a in zip(functions, samples, strict=True))
    return graphed[0] if single else graphed


def _parameters(function: Any) -> tuple[torch.Tensor, ...]:
    return tuple(function.parameters()) if isinstance(function, nn.Module) else ()


def _check(function: Any, args: Any) -> None:
    if not callable(function):
        raise TypeError(f"make_graphed_callables: expected a module or function, got {type(function).__name__}")
    if not isinstance(args, tuple):
        raise TypeError(
            f"make_graphed_callables: sample_args must be a tuple of tensors, got {type(args).__name__}; write (x,) "
            "for a single tensor"
        )
    for i, arg in enumerate(args):
        if not isinstance(arg, torch.Tensor) or arg.device.type != "hpu":
            what = f"a tensor on {arg.device}" if isinstance(arg, torch.Tensor) else type(arg).__name__
            raise TypeError(
                f"make_graphed_callables: sample_args must be a tuple of tensors on hpu, but element {i} is {what}. "
                "Pass tensors only; for other structures there is ModuleCacher"
            )
    if isinstance(function, nn.Module):
        for name, module in function.named_modules():
            if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks:
                raise RuntimeError(
                    f"make_graphed_callables: module {name or type(module).__name__!r} has hooks, which a replay would "
                    "not call. Remove them, and register them after this call if need be."
                )
        for name, buffer in function.named_buffers():
            if buffer.requires_grad:
                raise RuntimeError(f"make_graphed_callables: buffer {name!r} requires grad; make it a parameter")


def _graph(function: Any, args: tuple[Any, ...], allow_unused: bool) -> Any:
    module = isinstance(function, nn.Module)
    ungraphed = function.forward if module else function
    try:
        call = GraphedCall(ungraphed, _parameters(function), _walk(ungraphed, args), allow_unused, _PATIENCE_S)
    except Busy as error:
        raise RuntimeError(f"make_graphed_callables: {error}") from error
    except Uncapturable as reason:
        OneWarning("make_graphed_callables")(ungraphed, reason, stacklevel=5)
        return function
    captured = _walk(ungraphed, *call.arguments)
    captured_in = module and function.training

    def forward(*args: Any, **kwargs: Any) -> Any:
        if module and function.training != captured_in:
            return ungraphed(*args, **kwargs)
        given = _walk(ungraphed, args, kwargs)
        if given.key != captured.key and len(given.tensors) == len(captured.tensors):
            given = _check_same(ungraphed, captured, given)
        return call(given)

    if not module:
        return forward
    function.forward = forward
    return function


def _walk(function: Any, args: Any, kwargs: Any = {}) -> Walk:  # noqa: B006
    return walk_call("make_graphed_callables", function, args, kwargs, metadata=False)


def _check_same(function: Any, captured: Walk, given: Walk) -> Walk:
    """The walk through arguments that are given otherwise than at the capture: some by name, or those of defaults."""
    signature = inspect.signature(function)
    walks = []
    for walk in (captured, given):
        bound = signature.bind(*walk.value[0], **walk.value[1])
        bound.apply_defaults()
        walks.append(_walk(function, bound.args, bound.kwargs))
    place = walks[0].difference(walks[1], others=True)
    if place is not None:
        raise RuntimeError(
            f"make_graphed_callables: {place} is not what it was at the capture of {function.__qualname__}, and a "
            "replay can't take another one. Give tensors in the places of those of sample_args, and no others; "
            "ModuleCacher captures a graph for each kind of arguments."
        )
    return walks[1]
