"""Results that are another result, an input or a view of one."""

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from openhpu.compiler.passes.distinct_outputs import distinct_outputs


def test_each_result_has_memory_of_its_own():
    def program(x):
        y = x + 1
        return [y, y, x, y.view(4), x * 2]

    graph = make_fx(program, tracing_mode="fake")(torch.zeros(2, 2))
    distinct_outputs(graph)
    assert len(graph.graph.find_nodes(op="call_function", target=torch.ops.aten.clone.default)) == 3
    graph.recompile()
    x = torch.zeros(2, 2)
    results = graph(x)
    assert len({t.untyped_storage().data_ptr() for t in [x, *results]}) == 6
    for result, expected in zip(results, program(x), strict=True):
        torch.testing.assert_close(result, expected)
