"""Writes at indices some of which may be absent: without Inductor's check, which would raise an error."""

import torch
from torch.fx import GraphModule, Node

from openhpu.compiler.program import out_of_range  # noqa: F401  # defines the operator

aten = torch.ops.aten


def dropped_writes(graph: GraphModule) -> None:
    """Let `index_put` trust the indices that `out_of_range` made. Generated code drops the writes of those that
    are absent (`dropped_stores`)."""
    existing = torch.ops.openhpu_compiler.existing.default
    for node in graph.graph.find_nodes(op="call_function", target=aten.index_put.default):
        if any(isinstance(each, Node) and each.target is existing for each in node.args[1]):
            node.target = aten._unsafe_index_put.default
