"""Results that share memory with an input or with another result become copies."""

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from openhpu.compiler.passes.distinct_outputs import distinct_outputs


def copies(function, *inputs):
    """Which results of the graph are copies after the pass; the results are compared."""
    graph = make_fx(function, tracing_mode="fake")(*inputs)
    distinct_outputs(graph)
    graph.graph.lint()
    graph.recompile()
    expected = function(*inputs)
    torch.testing.assert_close(graph(*inputs), expected)
    found = graph.graph.output_node().args[0]
    for node, result in zip(found, expected, strict=True):
        assert node.meta["val"].stride() == result.stride()
    return [node.target is torch.ops.aten.clone.default for node in found]


def test_an_input_and_its_view_are_copied():
    assert copies(lambda x: (x, x.t(), x + 1), torch.randn(2, 3)) == [True, True, False]


def test_of_results_in_one_memory_the_first_keeps_it():
    def program(x):
        y = x * 2
        return y.t(), y, y[1:], x * 3

    assert copies(program, torch.randn(2, 3)) == [False, True, True, False]


def test_a_copy_of_an_input_is_a_result_of_its_own():
    assert copies(lambda x: (x.clone(), x * 1), torch.randn(2, 3)) == [True, False]
    graph = make_fx(lambda x: (x.clone(),), tracing_mode="fake")(torch.randn(2))
    distinct_outputs(graph)
    clones = graph.graph.find_nodes(op="call_function", target=torch.ops.aten.clone.default)
    assert len(clones) == 1  # and is not copied again
