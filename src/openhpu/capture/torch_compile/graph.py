"""A compiled graph: clusters of operators that run as recipes, and eager operators between them."""

import operator
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import fx
from torch.fx.passes.split_module import split_module

from openhpu.capture.torch_compile import host, nodes
from openhpu.capture.torch_compile.cluster import Cluster
from openhpu.capture.torch_compile.options import Options

# The graphs of the process, oldest first; a graph lives as long as the compiled function that it belongs to.
_graphs: weakref.WeakValueDictionary[int, "CompiledGraph"] = weakref.WeakValueDictionary()
# Called with each new graph.
observers: list[Callable[["CompiledGraph"], None]] = []


def compiled_graphs() -> "list[CompiledGraph]":
    """The compiled graphs that are alive, in the order in which they were made."""
    return list(_graphs.values())


class EagerFallbackError(RuntimeError):
    """A graph holds an operator that can't be part of a recipe, and such operators are not to run eagerly."""


@dataclass
class Layout:
    """How a graph was cut: operators of each cluster, and those that run eagerly, by name; reasons of the latter."""

    clusters: list[Counter[str]] = field(default_factory=list)
    eager: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, str] = field(default_factory=dict)


class CompiledGraph:
    """An FX graph of aten operators, as AOTAutograd hands it over. Called with a list of arguments, which it empties.

    Operators keep their order, so that random numbers are drawn and memory is written as in eager mode. The graph is
    cut where an operator can't be captured: by what is known of it beforehand, and again when a capture refuses one.
    """

    def __init__(
        self, module: fx.GraphModule, kind: str, options: Options, weights: frozenset[str] = frozenset()
    ) -> None:
        self.kind = kind  # "forward", "backward" or "inference"
        self.calls = 0
        self.layout = Layout()
        self._module = module
        self._options = options
        self._weights = weights  # placeholders whose contents recipes may hold
        self._refused: dict[str, str] = {}  # names of nodes: why
        self.device = nodes.device_of(module)
        self._stale = False
        self.clusters: list[Cluster] = []  # which run as recipes
        # The host's own nodes: they are no fallbacks, and no part of a cluster.
        self._on_host: frozenset[fx.Node] = frozenset()
        if self.device is not None and options.use_compiled_recipes:
            self._on_host = host.hoist_numbers(module, self.device) | host.effects(module)
        self._run = self._plan()
        _graphs[id(self)] = self
        for observer in observers:
            observer(self)

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        self.calls += 1
        results = self._run(args)
        args.clear()
        if self._stale:
            self._stale = False
            self._run = self._plan()
        return results

    def _refuse(self, node: fx.Node) -> None:
        """A capture can't hold the node, which its device would not say before. The next call has other clusters."""
        why = "it runs on the CPU for these dtypes, or reads a value"
        if not self._options.use_eager_fallback:
            raise self._error(node, why)
        self._refused[node.meta["openhpu_node"]] = why
        self._stale = True

    def _plan(self) -> Any:
        """The callable of the graph: a cluster, or a module of clusters and eager parts."""
        self.clusters = []
        self.layout = Layout()
        if self.device is None or not self._options.use_compiled_recipes:
            return self._eager()
        order = list(self._module.graph.nodes)
        fixed = nodes.host_constants(self._module)
        eager: set[fx.Node] = set()
        for node in order:
            node.meta["openhpu_node"] = node.name
            if node.op in ("call_function", "call_module") and node not in self._on_host:
                why = self._refused.get(node.name) or nodes.why_eager(node, self.device, fixed)
                if why:
                    eager.add(node)
                    self.layout.eager[nodes.name_of(node)] += 1
                    self.layout.reasons[nodes.name_of(node)] = why
                    if not self._options.use_eager_fallback:
                        raise self._error(node, why)
        apart = self._on_host.union(eager)
        compute = [node for node in order if nodes.is_compute(node) and node not in apart and node not in fixed]
        if not compute:
            return self._eager()
        if not apart:
            self.layout.clusters = [Counter(map(nodes.name_of, compute))]
            self.clusters = [Cluster(self._module, self._options, self._refuse, self._weights)]
            return self.clusters[0]
        return self._split(order, apart)

    def _eager(self) -> Any:
        forward = self._module.forward
        return lambda args: forward(*args)

    def _error(self, node: fx.Node, why: str) -> EagerFallbackError:
        line = nodes.line_of(node)
        return EagerFallbackError(
            f"hpu_backend: {nodes.name_of(node)} can't be part of a compiled graph ({why})"
            + (f"; it is called in {line}" if line else "")
            + ". Use another operator, or let it run eagerly between compiled parts: leave PT_HPU_USE_EAGER_FALLBACK "
            "and the option use_eager_fallback at 1."
        )

    def _split(self, order: list[fx.Node], apart: frozenset[fx.Node]) -> Any:
        # torch.fx's capability-based partitioner may move operators past each other, which would change the order in
        # which random numbers are drawn. Here parts follow each other as in the graph.
        part_of: dict[fx.Node, int] = {}
        part = 0
        for node in order:
            if node.op in ("placeholder", "output"):
                continue
            source = node.args[0] if node.target is operator.getitem else None
            if isinstance(source, fx.Node) and source in part_of:
                part_of[node] = part_of[source]  # between parts go tensors, not tuples of them
                continue
            if (node in apart) != bool(part % 2):
                part += 1  # a view, too, is in the part that needs it: else an argument and its view would be two
            part_of[node] = part
        whole = split_module(
            self._module, self._module, part_of.__getitem__, keep_original_order=True, tuple_return=True
        )
        for name, module in list(whole.named_children()):
            number = name.removeprefix("submod_")
            if not isinstance(module, fx.GraphModule) or number == name or int(number) % 2:
                continue
            compute = [node for node in module.graph.nodes if nodes.is_compute(node)]
            if not compute:
                continue
            cluster = Cluster(module, self._options, self._refuse, self._weights, whole=False)
            self.clusters.append(cluster)
            self.layout.clusters.append(Counter(map(nodes.name_of, compute)))
            delattr(whole, name)  # in the place of a module may stand another one only
            setattr(whole, name, lambda *args, cluster=cluster: cluster(args))
        return lambda args: whole.forward(*args)

    def __str__(self) -> str:
        return self._module.print_readable(print_output=False)  # type: ignore[no-any-return]
