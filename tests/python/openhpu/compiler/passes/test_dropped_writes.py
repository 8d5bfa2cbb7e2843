"""Writes at indices that may be absent are not checked by Inductor's code."""

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from openhpu.compiler.passes.dropped_writes import dropped_writes
from openhpu.compiler.program import out_of_range  # noqa: F401  # defines the operator

aten = torch.ops.aten


def targets(indices):
    """The writes of the graph after the pass."""
    inputs = torch.zeros(4), torch.tensor([0, 3]), torch.ones(2)
    graph = make_fx(lambda x, i, v: aten.index_put(x, [indices(i)], v), tracing_mode="fake")(*inputs)
    dropped_writes(graph)
    graph.graph.lint()
    return [node.target for node in graph.graph.nodes if "index_put" in str(node.target)]


def test_indices_that_may_be_absent_are_trusted():
    existing = torch.ops.openhpu_compiler.existing
    assert targets(lambda i: existing(i, i < 0)) == [aten._unsafe_index_put.default]


def test_other_indices_are_checked():
    assert targets(lambda i: i) == [aten.index_put.default]
