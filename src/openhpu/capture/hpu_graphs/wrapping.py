"""Graphs for inference: a module or function that captures each new kind of input, and replays it later."""

import functools
import warnings
import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import nn

from openhpu import settings
from openhpu.capture.hpu_graphs import structure
from openhpu.capture.hpu_graphs.account import Capturing
from openhpu.capture.hpu_graphs.capture import HPUGraph
from openhpu.capture.hpu_graphs.checked import Plain, check_of
from openhpu.capture.hpu_graphs.outcome import Copies, Outcome
from openhpu.capture.hpu_graphs.parts import Whole
from openhpu.capture.hpu_graphs.structure import Walk, storages_of
from openhpu.capture.hpu_graphs.undone import Busy, HostGenerators, OneWarning, Uncapturable, undone_capture
from openhpu.device import steps
from openhpu.observe import differences, events

if TYPE_CHECKING:
    from openhpu.capture.hpu_graphs.check import Check

M = TypeVar("M", bound=nn.Module)


@dataclass(eq=False)
class CachedParams:
    """The data of one kind of input: the graph, the tensors that it read, and its results."""

    graph_inputs: Any
    graph_outputs: Any
    graph: HPUGraph
    out_tinfo_list: Any = None
    asynchronous: bool = False
    outcome: Outcome | None = None
    check: "Check | None" = None

    def __post_init__(self) -> None:
        self.own_storages = {*storages_of(self.out_tinfo_list or ())}


class GraphedFunction(Whole):
    """`function`, run as a graph from the second call with the same kind of arguments on.

    Kinds differ in structure, in the tensors' dtypes, shapes and strides, in every argument that is no tensor, in
    autocast and inference mode, and in `training()`. Gradients are not recorded. The given tensors themselves take the
    place of those that were captured; what is written in place is written there. A tensor that lies in memory in
    another way is copied. Results are the same tensors each time, overwritten by the next call, unless
    `disable_tensor_cache`: then the graph keeps no memory for inputs, and results are new ones (with OPENHPU_STRICT
    they are the same ones, as on a Gaudi).

    What the function puts into a dict or an attribute of an argument is there after each call. A kind that no graph can
    hold, because the function reads a value on the host or changes an argument in another way, runs as it is, with a
    warning that names the line or the argument. The function's own errors are raised, and a TypeError for an argument
    that can be neither compared nor replaced (`structure.Walk`).
    """

    def __init__(
        self,
        function: Callable[..., Any],
        asynchronous: bool = False,
        disable_tensor_cache: bool = False,
        max_graphs: int | None = None,
        training: Callable[[], bool] = lambda: False,
        weights: Callable[[], list[torch.Tensor]] = list,
    ) -> None:
        if max_graphs is not None and max_graphs < 0:
            raise ValueError(f"max_graphs must be 0 or more, or None for any number, got {max_graphs}")
        self.function = function
        self.cache: dict[Hashable, CachedParams] = {}
        self._ungraphed: set[Hashable] = set()
        self._warn = OneWarning("wrap_in_hpu_graph")
        self._asynchronous = asynchronous
        self._transient = disable_tensor_cache or settings.get("PT_HPUGRAPH_DISABLE_TENSOR_CACHE")
        self._new_results = self._transient and not differences.as_gaudi(
            "tensor-cache"
        )  # a Gaudi returns the same ones
        self._given: list[weakref.ref[torch.Tensor]] = []  # new results of the last call, if somebody listens
        self._max_graphs = max_graphs
        self._training = training
        self._weights = weights

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        warmup_mode = kwargs.pop("warmup_mode", False)
        bypass = kwargs.pop("bypass_hpu_graphs", False)
        kwargs.pop("cache_tensors_list", None)
        if bypass:
            return self.function(*args, **kwargs)
        given = structure.walk_call("wrap_in_hpu_graph", self.function, args, kwargs, gradients=True)
        tensors = given.tensors
        if any(tensor.device.type != "hpu" for tensor in tensors):
            warnings.warn(
                "wrap_in_hpu_graph: an argument is a tensor on the CPU, whose contents a graph would keep as they were "
                "at its capture, so this call runs without a graph; move it to hpu first.",
                RuntimeWarning,
                stacklevel=3,
            )
            return self.function(*args, **kwargs)
        storages = storages_of(tensors)
        key = (given.key, structure.overlaps(tensors, storages), structure.context_key(self._training()))
        cached = self.cache.get(key)
        if cached is None:
            cached = self._captured(key, given)
            if cached is None:
                return self.function(*args, **kwargs)
        elif warmup_mode:
            steps.mark_step()
            return cached.graph_outputs
        if not cached.own_storages.isdisjoint(storages):  # a result of the last call, whose memory the next one gets
            tensors = [t.clone() if s in cached.own_storages else t for t, s in zip(tensors, storages, strict=True)]
        if self._given and any(result() is not None for result in self._given):
            differences.note("tensor-cache", "a result of the call before is still in use")
        results = cached.graph.run(tensors) if cached.check is None else self._checked(cached, given, tensors)
        listened = self._new_results and events.wanted("difference")
        self._given = [weakref.ref(tensor) for tensor in results] if listened else []
        return cached.outcome.give(given, results, tensors) if cached.outcome else results

    def _captured(self, key: Hashable, given: Walk) -> CachedParams | None:
        """The new graph of a call; None if it runs without one."""
        full = self._max_graphs is not None and len(self.cache) >= self._max_graphs
        if full or key in self._ungraphed:
            return None
        capturing = Capturing(self.function)
        try:
            cached = self.cache[key] = self._capture(given)
            capturing.done(cached.graph, given=given)
            cached.check = check_of(self.function, cached.graph, outcome=cached.outcome)
            return cached
        except Busy:  # a later call captures
            return None
        except Uncapturable as reason:
            given.restore()
            self._ungraphed.add(key)
            self._warn(self.function, reason, stacklevel=5)
            return None

    def _inputs(self, given: Walk) -> Copies:
        # Where each call brings inputs of its own, large ones, as a cache of keys and values, need no copy.
        kept = set(map(id, structure.large_ones(given.tensors) if self._transient else ()))
        return Copies(given, [t if id(t) in kept else structure.static_copy(t) for t in given.tensors])

    def _capture(self, given: Walk) -> CachedParams:
        # A call has the effects of a call without a graph: the capture is undone, and the replay does the work.
        inputs = self._inputs(given)
        graph = HPUGraph()
        with torch.no_grad():
            with undone_capture(graph, HostGenerators(), compile=False):
                graph.mark_user_inputs(inputs.tensors)
                outcome = Outcome(inputs, self.function(*inputs.value[0], **inputs.value[1]))
                graph.mark_weights(self._weights())
            graph.mark_user_outputs(outcome.tensors, transient=self._new_results)
        graph.compile()
        if self._new_results:
            graph.clear_inputs()
            results = outcome.hold([tensor.new_empty(0) for tensor in outcome.tensors])
            return CachedParams(None, results, graph, [], self._asynchronous, outcome)
        # The tensors as they come back from each replay.
        stable = graph.outputs()
        results = outcome.hold(stable, inputs.tensors, again=True)
        if self._transient:
            graph.clear_inputs()
        return CachedParams(
            None if self._transient else inputs.value, results, graph, stable, self._asynchronous, outcome
        )

    def _checked(self, cached: CachedParams, given: Walk, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """The results of a replay that is compared with the plain call."""

        def prepare(graph: HPUGraph) -> Callable[[], Plain]:
            inputs = self._inputs(given)

            def call() -> Plain:
                graph.mark_user_inputs(inputs.tensors)
                outcome = Outcome(inputs, self.function(*inputs.value[0], **inputs.value[1]))
                written = [(tensors[i], inputs.tensors[i]) for i in inputs.written()]
                return Plain(outcome.tensors, written, outcome)

            return call

        check: Any = cached.check
        with torch.no_grad():
            results = check.run(prepare, lambda: cached.graph.run(tensors), given.value)
        return results if self._new_results else check.give(results, cached.own_storages)

    def clear_cache(self) -> None:
        """Drop all graphs, with their memory."""
        self.cache.clear()
        self._ungraphed.clear()

    def clear_inputs(self) -> None:
        """Free the memory that graphs keep for inputs; each call brings its own."""
        for cached in self.cache.values():
            cached.graph_inputs = None
            cached.graph.clear_inputs()


def wrap_in_hpu_graph(
    module: M,
    asynchronous: bool = False,
    disable_tensor_cache: bool = False,
    dry_run: bool = False,
    max_graphs: int | None = None,
) -> M:
    """Let `module.forward` run as a graph for each kind of input that recurs; returns `module`.

    The forward takes three more keyword arguments: `bypass_hpu_graphs` runs it without a graph, `warmup_mode` returns
    what is there without a replay, `cache_tensors_list` is accepted. The module gets `clear_cache()` and
    `clear_inputs()`. Results are the same tensors in each call unless `disable_tensor_cache` (see `GraphedFunction`).
    When there are `max_graphs` graphs, other inputs run without one. `dry_run` and `asynchronous` are accepted: a
    capture never has effects of its own here, and a replay never waits. Weights may change in place; after they were
    replaced (`load_state_dict(assign=True)`, `.to()`) call `clear_cache()`. Hooks of submodules run at the capture
    only. A forward that reads a value on the host runs without a graph, with one RuntimeWarning that names the line.
    """
    if not isinstance(module, nn.Module):
        raise TypeError(
            f"wrap_in_hpu_graph: expected a torch.nn.Module, got {type(module).__name__}; for a function there is "
            "wrap_in_hpu_graph_func"
        )

    def weights() -> list[torch.Tensor]:
        tensors = [] if module.training else [*module.parameters(), *module.buffers()]
        return [tensor for tensor in tensors if tensor.device.type == "hpu"]

    training = lambda: module.training  # noqa: E731
    graphed = GraphedFunction(module.forward, asynchronous, disable_tensor_cache, max_graphs, training, weights)
    module.forward = _called(graphed)
    module.clear_cache = graphed.clear_cache  # type: ignore[assignment]
    module.clear_inputs = graphed.clear_inputs  # type: ignore[assignment]
    return module


def _called(graphed: GraphedFunction) -> Any:
    """What a script calls: a function, with the name and the signature of the plain one."""

    @functools.wraps(graphed.function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return graphed(*args, **kwargs)

    return call


def wrap_in_hpu_graph_func(
    func: Callable[..., Any],
    asynchronous: bool = False,
    disable_tensor_cache: bool = False,
    dry_run: bool = False,
    max_graphs: int | None = None,
) -> Callable[..., Any]:
    """`func`, run as a graph for each kind of arguments that recurs, as `wrap_in_hpu_graph` does with a module."""
    if not callable(func):
        raise TypeError(f"wrap_in_hpu_graph_func: expected a function, got {type(func).__name__}")
    graphed = GraphedFunction(func, asynchronous, disable_tensor_cache, max_graphs)
    wrapped = _called(graphed)
    wrapped.clear_cache = graphed.clear_cache
    wrapped.clear_inputs = graphed.clear_inputs
    return wrapped  # type: ignore[no-any-return]
