"""Products with the integer zero."""

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from openhpu.compiler.passes.float_zeros import float_zeros


def test_zero_becomes_a_float_where_the_product_is_floating():
    graph = make_fx(lambda x, n: (x * 0, n * 0, x * 2), tracing_mode="fake")(
        torch.ones(2), torch.ones(2, dtype=torch.int64)
    )
    float_zeros(graph)
    graph.recompile()
    factors = [node.args[1] for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten.mul.Tensor)]
    assert [(type(f), f) for f in factors] == [(float, 0.0), (int, 0), (int, 2)]
    product, *_ = graph(torch.tensor([float("nan"), 1.0]), torch.ones(2, dtype=torch.int64))
    assert product.isnan().tolist() == [True, False]
