"""Which sums with a product become a product and a loop."""

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from openhpu.compiler.inductor import biases

aten = torch.ops.aten
# What reads a sum, and whether generated code adds the bias.
USES = {
    "a loop": (lambda y, w: [torch.relu(y)], True),
    "a loop, through a view": (lambda y, w: [torch.relu(y.view(2, 8))], True),
    "a loop and the caller": (lambda y, w: [y, torch.relu(y)], True),
    "the caller": (lambda y, w: [y], False),
    "a library": (lambda y, w: [torch.mm(y, w)], False),
    "a loop and a library": (lambda y, w: [torch.relu(y), torch.mm(y, w)], False),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch, at the import of its passes
@pytest.mark.parametrize("name", USES)
def test_a_loop_adds_the_bias_of_a_sum_that_it_reads(name):
    from torch._inductor.fx_passes import post_grad

    use, expected = USES[name]
    with FakeTensorMode():
        given = torch.empty(4), torch.empty(4, 4), torch.empty(4, 4)
        graph = make_fx(lambda bias, x, w: use(torch.addmm(bias, x, w), w))(*given)
    post_grad.lazy_init()
    with biases.in_loops():
        post_grad.pass_patterns[2].apply(graph.graph)
    found = [node.target for node in graph.graph.nodes if node.op == "call_function"]
    assert (aten.addmm.default not in found) == expected
    assert (aten.add.Tensor in found) == expected
