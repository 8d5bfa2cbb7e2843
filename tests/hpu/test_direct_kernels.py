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
