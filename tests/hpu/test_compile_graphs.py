"""torch.compile(backend="hpu_backend"): same results and errors as eager mode, from captured graphs."""

import pytest
import torch

import habana_frameworks.torch.core as htcore
from habana_frameworks.torch.utils.internal import is_lazy
from tests.hpu.support import compiled, compiled_agrees, line, make

pytestmark = pytest.mark.usefixtures("compiled_graphs")


# A captured graph alone, and no operators.
ONE_COMMAND = {"graph_replays": 1, "ops_submitted": 0, "ops_waited": 0, "graphs_captured": 0}


def test_later_calls_are_one_command(counted):
    f = compiled(lambda x: x + 1, fullgraph=True)
    x = torch.ones(3, device="hpu")
    with counted(graphs_captured=1, graph_replays=0):
        first = f(x)
    with counted(**ONE_COMMAND):
        f(x)
    second, third = f(x), f(torch.full((3,), 5.0, device="hpu"))
    assert [t.tolist() for t in (first, second, third)] == [[2.0] * 3, [2.0] * 3, [6.0] * 3]
    assert len({t.data_ptr() for t in (first, second, third)}) == 3


@pytest.mark.parametrize("key", [None, "hpu", "CompositeExplicitAutograd", "HPU"])
def test_python_code_of_an_operator_runs_in_each_call(key):
    """What it reads may change. An operator of `custom_op`, for all devices or hpu, or of `Library.impl`."""
    calls = []

    def seen(x: torch.Tensor) -> torch.Tensor:
        calls.append(x.shape)
        return x * len(calls)

    name = f"openhpu_compile_tests::seen_{key}"
    if key in (None, "hpu"):
        torch.library.custom_op(name, seen, mutates_args=(), device_types=key)
    else:
        torch.library.define(name, "(Tensor x) -> Tensor")
        torch.library.impl(name, key, seen)
    torch.library.register_fake(name, torch.empty_like)
    op = getattr(torch.ops.openhpu_compile_tests, f"seen_{key}")
    f = compiled(lambda x: op(x * 2) + 1, fullgraph=True)
    assert [f(torch.ones(1, device="hpu")).item() for _ in range(4)] == [3.0, 5.0, 7.0, 9.0]


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
        with counted(**ONE_COMMAND):
            f(x)


def test_captures_are_bounded(compiled_graphs):
    f = compiled(lambda x: x + 1, dynamic=True)
    f(torch.ones(2, device="hpu"))
    (graph,) = compiled_graphs
    cluster = graph.clusters[0]
    cluster.captures.most = 3
    for n in range(3, 12):
        assert f(torch.ones(n, device="hpu")).tolist() == [2.0] * n
    assert len(cluster.captures) == 3


def test_questions_about_the_device_break_no_graph(compiled_graphs):
    def work(x):
        stream = torch.hpu.current_stream()
        x = x + (stream == torch.hpu.current_stream(0) == torch.hpu.current_stream("hpu"))
        if torch.hpu.is_available():
            x = x + torch.hpu.device_count()
        return x + (0 if is_lazy() else 1) + (0 if htcore.is_lazy() else 1)

    compiled_agrees(work, lambda k: (torch.ones(3, device="hpu"),), fullgraph=True)
    assert len(compiled_graphs) == 1


def test_tensors_of_two_devices():
    def work(a, b):
        y = a * 2
        return y + b

    number = line() - 2
    f = compiled(work)
    x = torch.ones(3, device="hpu")
    for _ in range(2):
        with pytest.raises(Exception, match="at least two devices, hpu:0 and cpu") as error:
            f(x, torch.ones(3))
        assert f'test_compile_graphs.py", line {number}' in str(error.value)
        assert "add" in str(error.value)
    assert f(x, torch.ones(3, device="hpu")).tolist() == [3.0] * 3  # and goes on


def test_a_device_that_is_not_there():
    f = compiled(lambda x: (x + 1).to("hpu:50"))
    with pytest.raises(Exception, match=r"HPU device index 50 is out of range.*OPENHPU_DEVICE_COUNT"):
        f(torch.ones(3, device="hpu"))


def test_memory_is_back_when_the_function_is_gone(level):
    f = compiled(lambda x: (x * 2, x.t(), torch.zeros(9, device="hpu")))
    for _ in range(3):
        f(torch.ones(64, 3, device="hpu"))
    del f
    torch._dynamo.reset()
