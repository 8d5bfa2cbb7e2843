"""The result of torch.compile: operators in clusters and operators that run eagerly."""

from dataclasses import dataclass
from typing import Any, Self

from openhpu.capture.torch_compile import graph as graphs


@dataclass
class OpCount:
    """How often an operator occurs in a graph: in clusters, and run eagerly."""

    graph_count: int = 0
    eager_count: int = 0


class FxGraphAnalyzer:
    """Context manager: reports on the graphs that torch.compile makes inside it.

    With `reset_dynamo` everything compiled before is forgotten first, so that it is compiled inside. Graphs on other
    devices than hpu count with `capture_non_hpu_output` only.
    """

    def __init__(self, reset_dynamo: bool = False, capture_non_hpu_output: bool = False) -> None:
        self._reset = reset_dynamo
        self._others = capture_non_hpu_output
        self._graphs: list[graphs.CompiledGraph] = []
        self._seen = self._graphs.append  # one object, which can be removed again

    def __enter__(self) -> Self:
        if self._reset:
            import torch._dynamo

            torch._dynamo.reset()
        self._graphs.clear()
        graphs.observers.append(self._seen)
        return self

    def __exit__(self, *exception: Any) -> None:
        graphs.observers.remove(self._seen)

    @property
    def graphs(self) -> list[graphs.CompiledGraph]:
        """The graphs, in the order in which they were compiled."""
        return [graph for graph in self._graphs if self._others or graph.device is not None]

    def get_ops_summary(self) -> list[dict[str, OpCount]]:
        """For each graph its operators, and how often each is part of a cluster and runs eagerly."""
        summary = []
        for graph in self.graphs:
            counts: dict[str, OpCount] = {}
            for cluster in graph.layout.clusters:
                for name, count in cluster.items():
                    counts.setdefault(name, OpCount()).graph_count += count
            for name, count in graph.layout.eager.items():
                counts.setdefault(name, OpCount()).eager_count += count
            summary.append(counts)
        return summary

    def get_partition_num(self) -> int:
        """Clusters of all graphs."""
        return sum(len(graph.layout.clusters) for graph in self.graphs)
