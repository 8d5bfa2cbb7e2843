"""tanh as generated code."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from openhpu.compiler.inductor import fast_tanh


def passed(x):
    """The decomposed graph of tanh of a tensor like `x`, and whether it is another operator."""
    graph = make_fx(torch.ops.aten.tanh.default, fast_tanh.decompositions({}), tracing_mode="fake")(x)
    return graph, not graph.graph.find_nodes(op="call_function", target=torch.ops.aten.tanh.default)


def test_float32_is_within_three_units_in_the_last_place():
    x = torch.cat([torch.linspace(-12, 12, 400_001), torch.logspace(-37, 1, 20_001), -torch.logspace(-37, 1, 20_001)])
    graph, replaced = passed(x)
    assert replaced
    exact = x.double().tanh()
    unit = (torch.nextafter(exact.float().abs(), torch.tensor(2.0)) - exact.float().abs()).double()
    assert ((graph(x).double() - exact).abs() / unit).max() <= 3.5


def test_special_values():
    x = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 100.0, -100.0, 1e-42])
    graph, _ = passed(x)
    torch.testing.assert_close(graph(x), x.tanh(), rtol=0, atol=0, equal_nan=True)
    assert torch.signbit(graph(x)[:2]).tolist() == [False, True]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_dtypes_are_computed_in_float32(dtype):
    x = torch.linspace(-6, 6, 5001).to(dtype)
    graph, replaced = passed(x)
    assert replaced
    torch.testing.assert_close(graph(x), x.tanh(), rtol=torch.finfo(dtype).eps, atol=0)
    assert graph(x).dtype == dtype


@pytest.mark.parametrize("x", [torch.ones(3, dtype=torch.float64), torch.ones(3, dtype=torch.int64)], ids=str)
def test_other_dtypes_are_left_alone(x):
    graph, replaced = passed(x)
    assert not replaced
    torch.testing.assert_close(graph(x), x.tanh())
