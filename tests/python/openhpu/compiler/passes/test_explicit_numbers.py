"""Whole numbers that are defaults are written into calls of operators that Inductor does not generate."""

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from openhpu.compiler.passes.explicit_numbers import explicit_numbers


def keywords(function, target, *inputs):
    """Those of the calls of an operator after the pass."""
    graph = make_fx(function, tracing_mode="fake")(*inputs)
    explicit_numbers(graph)
    graph.graph.lint()
    graph.recompile()
    torch.testing.assert_close(graph(*inputs), function(*inputs))
    return [dict(node.kwargs) for node in graph.graph.find_nodes(op="call_function", target=target)]


def test_a_call_of_a_fallback_has_its_defaults():
    inputs = torch.zeros(3, 2), torch.tensor([0, 2]), torch.ones(2, 2)
    target = torch.ops.aten._cdist_forward.default
    assert keywords(lambda x: torch.cdist(x, x), target, torch.randn(3, 2)) == [{}]  # it has no defaults
    target = torch.ops.aten.index_add.default
    assert keywords(lambda x, i, y: x.index_add(0, i, y), target, *inputs) == [{"alpha": 1}]
    assert keywords(lambda x, i, y: x.index_add(0, i, y, alpha=3), target, *inputs) == [{"alpha": 3}]


def test_what_inductor_generates_stays():
    target = torch.ops.aten.add.Tensor
    assert keywords(lambda x: x + x, target, torch.ones(3)) == [{}]
