"""Graphs that hold operators which can't be part of a recipe: they run eagerly, between clusters."""

import pytest
import torch
from torch import nn

from openhpu.capture.torch_compile import FxGraphAnalyzer, OpCount
from tests.hpu.support import compiled, compiled_agrees

pytestmark = pytest.mark.usefixtures("compiled_graphs")


def test_a_cpu_fallback_runs_between_clusters(compiled_graphs, counted):
    def work(x):
        y = x * 2 + 1
        z = torch.digamma(y)  # not in Gaudi's table
        return z.exp() - x

    def arguments(k):
        return (torch.linspace(1, 2, 5, device="hpu") + k,)

    f = compiled_agrees(work, arguments, calls=2, fullgraph=True)  # it finds out, and captures both
    with counted(graph_replays=2, ops_fallback=1, graphs_captured=0):
        f(*arguments(3))
    (graph,) = compiled_graphs
    assert [dict(c) for c in graph.layout.clusters] == [
        {"aten::mul.Tensor": 1, "aten::add.Tensor": 1},
        {"aten::exp": 1, "aten::sub.Tensor": 1},
    ]
    assert dict(graph.layout.eager) == {"aten::digamma": 1}


def test_random_numbers_and_writes_are_those_of_eager_mode():
    def work(x, total):
        y = nn.functional.dropout(x, 0.5)
        total += y.sum()
        z = torch.digamma(y + 2)
        w = nn.functional.dropout(z, 0.5)
        total *= 2
        return w + torch.rand_like(w)

    compiled_agrees(
        work, lambda k: (torch.ones(50, device="hpu"), torch.zeros((), device="hpu")), rtol=0, atol=0, fullgraph=True
    )


def test_cpu_tensors_in_a_graph(compiled_graphs, counted):
    def work(x, c):
        y = x.sin() + 1
        d = c * 3
        return y * d.to("hpu") + c.sum(), d, y.to("cpu") + c

    def arguments(k):
        return torch.full((3,), float(k), device="hpu"), torch.arange(3.0) + k

    f = compiled_agrees(work, arguments, fullgraph=True)
    with counted() as moved:
        f(*arguments(3))
    assert moved["graph_replays"] >= 1
    (graph,) = compiled_graphs
    assert graph.layout.eager["aten::_to_copy"] == 2


def test_sizes_that_depend_on_values():
    def work(x):
        y = x * 2
        found = y.nonzero().squeeze(1)
        return y[found] + 1, found * 2

    values = [1.0, 0.0, 2.0], [0.0, 0.0, 3.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [4.0, 0.0, 2.0]
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled_agrees(work, lambda k: (torch.tensor(values[k], device="hpu"),), calls=len(values), fullgraph=True)


def test_the_analyzer():
    x = torch.ones(3, device="hpu")
    with FxGraphAnalyzer(reset_dynamo=True) as analyzer:
        f = compiled(lambda x: torch.digamma(x + 1) * 2)
        f(x)
        f(x)
        compiled(lambda c: c + 1)(torch.ones(2))
    assert analyzer.get_ops_summary() == [
        {"aten::add.Tensor": OpCount(1, 0), "aten::mul.Tensor": OpCount(1, 0), "aten::digamma": OpCount(0, 1)}
    ]
    assert analyzer.get_partition_num() == 2


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Inductor's own
def test_inductor_says_what_to_use():
    with pytest.raises(Exception, match=r'Use torch\.compile\(\.\.\., backend="hpu_backend"\)'):
        torch.compile(lambda x: x + 1)(torch.ones(2, device="hpu"))


def test_memory_that_parts_share_keeps_its_order(counted):
    """A part that writes a tensor of which it has a view, too, is no recipe; one that writes another tensor is."""

    def shared(x, other):
        view = x.t()
        low = torch.linalg.svdvals(x).sum()  # on the CPU: what comes after is another part
        z = view * 3 + low
        x.mul_(2)
        return z + other

    def apart(x, other):
        low = torch.linalg.svdvals(x).sum()
        z = x * 3 + low
        other.mul_(2)
        return z + other

    def arguments(k):
        return torch.arange(16.0, device="hpu").view(4, 4) + k, torch.full((4, 4), float(k), device="hpu")

    for work, replays in ((shared, 0), (apart, 1)):
        f = compiled_agrees(work, arguments)
        with counted(graph_replays=replays):
            f(*arguments(3))


@pytest.mark.parametrize("captured", [True, False])
def test_a_number_that_changes_with_each_call(captured):
    """An item() of the script: a part of the graph, or a break between two."""

    def work(x):
        return (x * 2) * x.sum().item() + 1

    with torch._dynamo.config.patch(capture_scalar_outputs=captured):
        f = compiled(work)
        for k in range(4):
            assert f(torch.full((2,), float(k), device="hpu")).tolist() == [4.0 * k * k + 1] * 2


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # by Dynamo
def test_a_function_with_a_backward_of_its_own():
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            context.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(context, grad):
            (x,) = context.saved_tensors
            return grad * 6 * x**2  # twice the derivative, so that nothing else computes it

    f = compiled(lambda x: Doubled.apply(x * 2) + 1, fullgraph=True)
    for k in range(3):
        x = torch.tensor([1.0, 2.0], device="hpu").add_(k).requires_grad_()
        f(x).sum().backward()
        torch.testing.assert_close(x.grad.cpu(), 2 * 6 * (2 * x.detach().cpu()) ** 2)


@pytest.mark.parametrize("entry", ["sin", "aten.sin", "aten::sin", "aten.sin.default", torch.ops.aten.sin.default])
def test_an_operator_that_the_script_keeps_eager(compiled_graphs, entry):
    from habana_frameworks.torch.dynamo.compile_backend.shared_layer import hpu_fallback_op_list

    hpu_fallback_op_list.append(entry)
    try:
        compiled_agrees(lambda x: (x * 2).sin() + 1, lambda k: (torch.ones(3, device="hpu") * k,), fullgraph=True)
    finally:
        hpu_fallback_op_list.remove(entry)
    (graph,) = compiled_graphs
    assert dict(graph.layout.eager) == {"aten::sin": 1}
    assert dict(graph.layout.reasons) == {"aten::sin": "hpu_fallback_op_list names it"}
    assert len(graph.layout.clusters) == 2
    compiled_graphs.clear()
    torch._dynamo.reset()
    compiled_agrees(lambda x: (x * 2).sin() + 1, lambda k: (torch.ones(3, device="hpu") * k,), fullgraph=True)
    assert not compiled_graphs[0].layout.eager
