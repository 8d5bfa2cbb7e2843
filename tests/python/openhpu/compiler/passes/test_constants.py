"""Weights that are constants of a recipe."""

import torch
from torch._subclasses import FakeTensorMode
from torch.fx import symbolic_trace

from openhpu.compiler.passes import constants


class Products(torch.nn.Module):
    """Two products with one weight by columns, one with another by rows."""

    def __init__(self):
        super().__init__()
        self.register_buffer("columns", torch.rand(3, 4).t())
        self.register_buffer("rows", torch.rand(4, 3))

    def forward(self, x, bias):
        aten = torch.ops.aten
        first = aten.mm.default(x, self.columns)
        return first, aten.addmm.default(bias, x, self.columns), aten.mm.default(x, self.rows)


def test_right_factors_are_laid_out_by_rows_once():
    module = Products()
    graph = symbolic_trace(module)
    constants._by_rows(graph, FakeTensorMode())
    graph.graph.lint()
    weights = {node.target: getattr(graph, node.target) for node in graph.graph.find_nodes(op="get_attr")}
    assert sorted(weights) == ["columns_by_rows", "rows"]
    assert all(weight.is_contiguous() for weight in weights.values())
    x, bias = torch.rand(2, 4), torch.rand(3)
    torch.testing.assert_close(graph(x, bias), module(x, bias))
