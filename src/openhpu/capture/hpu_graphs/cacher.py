"""Graphs for training with inputs of changing shapes: `ModuleCacher`."""

import copy
import functools
import logging
from collections import Counter, OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import nn

from openhpu.capture.hpu_graphs.callables import GraphedCall
from openhpu.capture.hpu_graphs.parts import Whole
from openhpu.capture.hpu_graphs.structure import context_key, overlaps, storages_of, walk_call
from openhpu.capture.hpu_graphs.undone import Busy, OneWarning, Uncapturable

M = TypeVar("M", bound=nn.Module)

_log = logging.getLogger("openhpu.graphs")


class ModuleCacher:
    """Makes modules run forward and backward as graphs, at most `max_graphs` each, one for each kind of input.

    `ModuleCacher(max_graphs)(model, ...)` replaces the forward of `model` and returns it. A graph is used in training
    mode with gradients; else the module runs as before, as it does where no graph can hold it: with a warning that
    names the line that reads a value on the host. When there is no room for another graph the least recently used one
    goes, or with `use_lfu` the least frequently used.
    """

    def __init__(self, max_graphs: int = 10) -> None:
        if max_graphs < 1:
            raise ValueError(f"ModuleCacher: max_graphs must be at least 1, got {max_graphs}")
        self.max_graphs = max_graphs

    def __call__(
        self,
        model: M,
        use_lfu: bool = False,
        inplace: bool = True,
        allow_unused_input: bool = False,
        asynchronous: bool = False,
        have_grad_accumulation: bool = False,
        log_frequency: int = 100,
        verbose: bool = False,
        disable_tensor_cache: bool = False,
        dry_run: bool = False,
    ) -> M:
        """Graph `model`, or with `inplace=False` a copy that shares its parameters; returns the module.

        The module gets `set_iteration_count(i)` (with `have_grad_accumulation` iteration 0 has graphs of its own),
        `capture_start()` and `capture_end()` (inputs in between are counted and run without graphs), and
        `graph_statistics()`. With `verbose` the statistics are logged every `log_frequency` calls. `asynchronous`,
        `disable_tensor_cache` and `dry_run` are accepted: a replay never waits, a capture has no effects beside the
        graph, and what backward reads has to stay. Raises TypeError for what is no module or wraps one for several
        devices.
        """
        if not isinstance(model, nn.Module):
            raise TypeError(f"ModuleCacher: expected a torch.nn.Module, got {type(model).__name__}")
        if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
            raise TypeError(f"ModuleCacher: graph the module inside {type(model).__name__}, not the wrapper")
        if not inplace:
            model = copy.copy(model)
        frequency = log_frequency if verbose else 0
        cache = _Cache(model, self.max_graphs, use_lfu, allow_unused_input, have_grad_accumulation, frequency)
        for name in ("set_iteration_count", "capture_start", "capture_end", "graph_statistics"):
            setattr(model, name, getattr(cache, name))

        @functools.wraps(model.forward)  # libraries choose arguments by the signature
        def forward(*args: Any, **kwargs: Any) -> Any:
            return cache.forward(*args, **kwargs)

        model.forward = forward
        return model


@dataclass(eq=False)
class _Cache(Whole):
    """The graphs of one module."""

    _model: nn.Module
    _max_graphs: int
    _use_lfu: bool
    _allow_unused: bool
    _accumulates: bool
    _log_frequency: int  # 0: nothing is logged

    def __post_init__(self) -> None:
        self._ungraphed = self._model.forward
        self._graphs: OrderedDict[Hashable, GraphedCall] = OrderedDict()  # the most recently used one last
        self._ungraphed_kinds: set[Hashable] = set()
        self._warn = OneWarning("ModuleCacher")
        self._uses: Counter[Hashable] = Counter()
        self._iteration = 0
        self._profiling = False
        self._counts = Counter(calls=0, hits=0, captures=0, evictions=0, ungraphed=0)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        self._counts["calls"] += 1
        if self._log_frequency and self._counts["calls"] % self._log_frequency == 0:
            _log.info("%s: %s", type(self._model).__name__, self.graph_statistics())
        if not self._model.training or not torch.is_grad_enabled():
            self._counts["ungraphed"] += 1
            return self._ungraphed(*args, **kwargs)
        given = walk_call("ModuleCacher", self._ungraphed, args, kwargs)
        if any(tensor.device.type != "hpu" for tensor in given.tensors):
            self._counts["ungraphed"] += 1
            return self._ungraphed(*args, **kwargs)
        first = self._accumulates and self._iteration == 0
        key = (given.key, overlaps(given.tensors, storages_of(given.tensors)), context_key(True), first)
        self._uses[key] += 1
        if self._profiling or key in self._ungraphed_kinds:
            self._counts["ungraphed"] += 1
            return self._ungraphed(*args, **kwargs)
        call = self._graphs.get(key)
        if call is None:
            self._make_room()
            parameters = tuple(self._model.parameters())
            try:
                call = GraphedCall(self._ungraphed, parameters, given, self._allow_unused)
            except Busy:  # a later call captures
                self._counts["ungraphed"] += 1
                return self._ungraphed(*args, **kwargs)
            except Uncapturable as reason:
                given.restore()
                self._ungraphed_kinds.add(key)
                self._warn(self._ungraphed, reason, stacklevel=5)
                self._counts["ungraphed"] += 1
                return self._ungraphed(*args, **kwargs)
            self._graphs[key] = call
            self._counts["captures"] += 1
        else:
            self._graphs.move_to_end(key)
            self._counts["hits"] += 1
        return call(given)

    def _make_room(self) -> None:
        while len(self._graphs) >= self._max_graphs:
            if self._use_lfu:
                del self._graphs[min(self._graphs, key=lambda key: self._uses[key])]
            else:
                self._graphs.popitem(last=False)
            self._counts["evictions"] += 1

    def set_iteration_count(self, iteration: int) -> None:
        """Which step of an accumulation of gradients comes next; 0 is the first."""
        self._iteration = iteration

    def capture_start(self) -> None:
        """From here on inputs are counted, for eviction by frequency, and nothing is captured."""
        self._profiling = True

    def capture_end(self) -> None:
        """Capture again."""
        self._profiling = False

    def graph_statistics(self) -> dict[str, int]:
        """Calls, and of these hits, captures, evictions of graphs, calls without a graph; graphs held now."""
        return {**self._counts, "graphs": len(self._graphs)}

    def __getstate__(self) -> dict[str, Any]:
        # Graphs belong to the process; a copy captures its own.
        return {**self.__dict__, "_graphs": OrderedDict()}
