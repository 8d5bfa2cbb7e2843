"""Graphs that hold operators which can't be part of a recipe: they run eagerly, between clusters."""

import pytest
import torch
from torch import nn

from openhpu.capture.torch_compile import FxGraphAnalyzer, OpCount

pytestmark = pytest.mark.usefixtures("compiled_graphs")


def compiled(function, **options):
    return torch.compile(function, backend="hpu_backend", fullgraph=True, **options)


def test_a_cpu_fallback_runs_between_clusters(compiled_graphs, counted):
    def work(x):
        y = x * 2 + 1
        z = torch.digamma(y)  # not in Gaudi's table
        return z.exp() - x

    f = compiled(work)
    x = torch.linspace(1, 2, 5, device="hpu")
    expected = work(x)
    with counted() as moved:
        torch.testing.assert_close(f(x), expected)  # finds out
    assert moved["ops_fallback"] == 1
    (graph,) = compiled_graphs
    assert [dict(c) for c in graph.layout.clusters] == [
        {"aten::mul.Tensor": 1, "aten::add.Tensor": 1},
        {"aten::exp": 1, "aten::sub.Tensor": 1},
    ]
    assert dict(graph.layout.eager) == {"aten::digamma": 1}
    torch.testing.assert_close(f(x), expected)  # captures both
    with counted() as moved:
        torch.testing.assert_close(f(x), expected)
    assert (moved["graph_replays"], moved["ops_fallback"], moved["graphs_captured"]) == (2, 1, 0)


def test_random_numbers_and_writes_are_those_of_eager_mode():
    def work(x, total):
        y = nn.functional.dropout(x, 0.5)
        total += y.sum()
        z = torch.digamma(y + 2)
        w = nn.functional.dropout(z, 0.5)
        total *= 2
        return w + torch.rand_like(w)

    f = compiled(work)
    x = torch.ones(50, device="hpu")
    results = []
    for run in (work, f):
        torch.manual_seed(4)
        total = torch.zeros((), device="hpu")
        results.append(([run(x, total) for _ in range(4)], total.clone()))
    torch.testing.assert_close(*results, rtol=0, atol=0)


def test_cpu_tensors_in_a_graph(compiled_graphs, counted):
    def work(x, c):
        y = x.sin() + 1
        d = c * 3
        return y * d.to("hpu") + c.sum(), d, y.to("cpu") + c

    f = compiled(work)
    for k in range(3):
        x, c = torch.full((3,), float(k), device="hpu"), torch.arange(3.0) + k
        with counted() as moved:
            actual = f(x, c)
        torch.testing.assert_close(actual, work(x, c))
    assert moved["graph_replays"] >= 1
    (graph,) = compiled_graphs
    assert graph.layout.eager["aten::_to_copy"] == 2


def test_sizes_that_depend_on_values():
    def work(x):
        y = x * 2
        found = y.nonzero().squeeze(1)
        return y[found] + 1, found * 2

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        f = compiled(work)
        for values in ([1.0, 0.0, 2.0], [0.0, 0.0, 3.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [4.0, 0.0, 2.0]):
            x = torch.tensor(values, device="hpu")
            for ours, theirs in zip(f(x), work(x), strict=True):
                assert ours.tolist() == theirs.tolist()


def test_the_analyzer():
    def work(x):
        return torch.digamma(x + 1) * 2

    x = torch.ones(3, device="hpu")
    with FxGraphAnalyzer(reset_dynamo=True) as analyzer:
        f = compiled(work)
        f(x), f(x)
        torch.compile(lambda c: c + 1, backend="hpu_backend")(torch.ones(2))
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

    for work, replays in ((shared, 0), (apart, 1)):
        f = torch.compile(work, backend="hpu_backend")
        for k in range(4):
            x, other = torch.arange(16.0).view(4, 4) + k, torch.full((4, 4), float(k))
            given = x.to("hpu"), other.to("hpu")
            with counted() as moved:
                result = f(*given)
                torch.hpu.synchronize()
            torch.testing.assert_close(result.cpu(), work(x, other), rtol=1e-4, atol=1e-4)
            assert torch.equal(given[0].cpu(), x) and torch.equal(given[1].cpu(), other)
        assert moved["graph_replays"] == replays
