"""Defaults of operators that recipes call."""

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from openhpu.compiler.passes.explicit_numbers import explicit_numbers


def passed(function, *inputs):
    """(keyword arguments of each call after the pass, calls changed)."""
    graph = make_fx(function, tracing_mode="fake")(*inputs)
    count = explicit_numbers(graph)
    graph.graph.lint()
    return [node.kwargs for node in graph.graph.nodes if node.op == "call_function"], count


def test_calls_of_operators_without_generated_code_have_all_their_numbers():
    x, index = torch.ones(3, 2), torch.tensor([0, 2])
    program = lambda x, y, i: torch.ops.aten.index_add.default(x, 0, i, y)  # noqa: E731
    assert passed(program, x, x[:2], index) == ([{"alpha": 1}], 1)


def test_numbers_that_were_given_stay():
    x, index = torch.ones(3, 2), torch.tensor([0, 2])
    program = lambda x, y, i: torch.ops.aten.index_add.default(x, 0, i, y, alpha=3)  # noqa: E731
    assert passed(program, x, x[:2], index) == ([{"alpha": 3}], 0)


def test_generated_operators_are_left_alone():
    x = torch.ones(3, 2)
    assert passed(lambda x: torch.ops.aten.add.Tensor(x, x), x) == ([{}], 0)
