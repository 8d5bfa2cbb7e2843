"""The pass that merges equal operators, alone."""

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from openhpu.compiler.passes.common_subexpressions import common_subexpressions

aten = torch.ops.aten


def merged(function, *inputs):
    """How many operators went, and the graph; it computes what it did before."""
    graph = make_fx(function)(*inputs)
    copies = [tensor.clone() for tensor in inputs]
    wanted = graph(*[tensor.clone() for tensor in inputs])
    count = common_subexpressions(graph)
    graph.graph.lint()
    graph.recompile()
    torch.testing.assert_close(graph(*copies), wanted, rtol=0, atol=0)
    return count, graph


def test_chains_of_equal_operators():
    count, graph = merged(lambda x: ((x + 1).exp(), (x + 1).exp().relu(), (x + 2).exp()), torch.randn(3))
    assert count == 2
    assert len(graph.graph.find_nodes(op="call_function", target=aten.exp.default)) == 2


def test_arguments_that_are_only_equal_in_python():
    count, _ = merged(lambda x: (x + 1, x + 1.0, x + True), torch.arange(3))
    assert count == 0


def test_results_of_operators_with_several():
    count, _ = merged(lambda x: (x.max(0)[0], x.max(0)[1], x.max(1)[0]), torch.randn(3, 3))
    assert count == 3  # one operator and its two results


def test_random_operators_and_writes_stay():
    def function(x):
        return torch.rand_like(x) - torch.rand_like(x), aten.add_.Tensor(x, 1), aten.add_.Tensor(x, 1)

    graph = make_fx(function)(torch.zeros(3))
    assert common_subexpressions(graph) == 0
    assert len(graph.graph.find_nodes(op="call_function", target=aten.add_.Tensor)) == 2
