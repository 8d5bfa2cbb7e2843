"""torch.compile(backend="hpu_backend"): same results as eager mode, from captured graphs."""

import pytest
import torch

from tests.hpu.support import compiled, make

pytestmark = pytest.mark.usefixtures("compiled_graphs")


def assert_one_command(function, counted, graphs=1):
    """`function()` gives the device `graphs` captured graphs to run and no operators."""
    with counted() as moved:
        function()
    assert moved["graph_replays"] == graphs
    assert moved["ops_submitted"] == moved["ops_waited"] == moved["graphs_captured"] == 0


def test_later_calls_are_one_command(counted):
    f = compiled(lambda x: x + 1, fullgraph=True)
    x = torch.ones(3, device="hpu")
    with counted() as moved:
        first = f(x)
    assert moved["graphs_captured"] == 1 and moved["graph_replays"] == 0
    assert_one_command(lambda: f(x), counted)
    second, third = f(x), f(torch.full((3,), 5.0, device="hpu"))
    assert [t.tolist() for t in (first, second, third)] == [[2.0] * 3, [2.0] * 3, [6.0] * 3]
    assert len({t.data_ptr() for t in (first, second, third)}) == 3


def test_the_graphs_python_code_runs_once():
    calls = []

    @torch.library.custom_op("openhpu_compile_tests::seen", mutates_args=())
    def seen(x: torch.Tensor) -> torch.Tensor:
        calls.append(x.shape)
        return x * 2

    seen.register_fake(lambda x: torch.empty_like(x))
    f = compiled(lambda x: seen(x) + 1)
    x = torch.ones(4, device="hpu")
    for _ in range(4):
        assert f(x).tolist() == [3.0] * 4
    assert len(calls) == 1


@pytest.mark.parametrize("name", ["mlp", "convnet", "gpt"])
@pytest.mark.parametrize("guard", [torch.no_grad, torch.inference_mode])
def test_inference_agrees_with_eager(name, guard, counted):
    model, _, x, _ = make(name)
    model.eval()
    f = compiled(model)
    with guard():
        expected = model(x)
        for _ in range(3):
            actual = f(x)
            torch.testing.assert_close(actual, expected)
            assert actual.is_inference() == expected.is_inference()
        assert_one_command(lambda: f(x), counted)


def test_captures_are_bounded(compiled_graphs):
    from openhpu.capture.torch_compile.cluster import Cluster

    f = compiled(lambda x: x + 1, dynamic=True)
    f(torch.ones(2, device="hpu"))
    (graph,) = compiled_graphs
    cluster = graph.clusters[0]
    assert isinstance(cluster, Cluster)
    cluster.captures.most = 3
    for n in range(3, 12):
        assert f(torch.ones(n, device="hpu")).tolist() == [2.0] * n
    assert len(cluster.captures) == 3


def test_graph_breaks(compiled_graphs):
    seen = []

    def work(x):
        y = x * 2
        torch._dynamo.graph_break()
        seen.append(y.sum().item())
        return y + 1

    f = compiled(work)
    for k in range(3):
        assert f(torch.full((2,), float(k), device="hpu")).tolist() == [2.0 * k + 1] * 2
    assert seen == [0.0, 4.0, 8.0]
    assert len(compiled_graphs) >= 3
    with pytest.raises(torch._dynamo.exc.Unsupported, match="graph_break"):
        torch._dynamo.reset()
        compiled(work, fullgraph=True)(torch.ones(2, device="hpu"))


def test_memory_is_back_when_the_function_is_gone(level):
    f = compiled(lambda x: (x * 2, x.t(), torch.zeros(9, device="hpu")))
    for _ in range(3):
        f(torch.ones(64, 3, device="hpu"))
    del f
    torch._dynamo.reset()
