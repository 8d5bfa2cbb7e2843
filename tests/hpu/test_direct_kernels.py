"""Operators with common signatures are called with their arguments as they are: nothing boxed, nothing counted."""

import pytest
import torch

DIRECT = [
    "aten::add.Tensor",
    "aten::add_.Tensor",
    "aten::mul.out",
    "aten::mm",
    "aten::addmm",
    "aten::relu",
    "aten::_softmax",
    "aten::gelu",
    "aten::where.self",
    "aten::clamp",
    "aten::max.dim",
]


@pytest.mark.parametrize("name", DIRECT)
def test_the_direct_way_is_registered(name):
    """An aim of speed that a change of signatures would silently lose."""
    line = next(text for text in torch._C._dispatch_dump(name).splitlines() if text.startswith("HPU:"))
    assert "unboxed" in line


@pytest.fixture
def pair():
    return torch.tensor([1.0, -2.0, 3.0], device="hpu"), torch.tensor([2.0, 2.0, 2.0], device="hpu")


def test_no_reference_is_left_behind_or_lost(pair):
    x, y = pair
    out = torch.empty(3, device="hpu")
    for _ in range(3):
        x + y
        x.add_(y)
        torch.mul(x, y, out=out)
        torch.nn.functional.linear(x, torch.eye(3, device="hpu"))
        x.max(0)
    assert [t._use_count() for t in (x, y, out)] == [1, 1, 1]


def test_an_error_leaves_no_reference(pair):
    x, y = pair
    with pytest.raises(RuntimeError, match="same device"):
        torch.ops.aten.add_(torch.ones(3), x)
    with pytest.raises(RuntimeError):
        x + torch.ones(2, device="hpu")
    with pytest.raises(RuntimeError):
        torch.mm(x, y)
    assert [x._use_count(), y._use_count()] == [1, 1]
    assert (x + y).tolist() == [3.0, 0.0, 5.0]


def test_what_is_written_is_what_is_returned(pair):
    x, y = pair
    out = torch.empty(3, device="hpu")
    assert x.add_(y) is x
    assert torch.add(x, y, out=out) is out
    assert torch.add(x, y, alpha=2, out=x) is x
    assert x.tolist() == [7.0, 4.0, 9.0]


def test_several_results_and_optional_arguments(pair):
    x, y = pair
    values, indices = torch.max(torch.stack((x, y)), 0)
    assert values.tolist() == [2.0, 2.0, 3.0]
    assert indices.tolist() == [1, 1, 0]
    assert torch.clamp(x, max=1.0).tolist() == [1.0, -2.0, 1.0]
    assert torch.clamp(x, -1.0).tolist() == [1.0, -1.0, 3.0]
    assert torch.sum(x, dtype=torch.float64).dtype == torch.float64
    assert (
        torch.nn.functional.gelu(x, approximate="tanh")
        .cpu()
        .allclose(torch.nn.functional.gelu(x.cpu(), approximate="tanh"))
    )
    assert torch.ops.aten.add(x, y).tolist() == (x + y).tolist()
