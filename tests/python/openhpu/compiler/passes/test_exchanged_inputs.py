"""Inputs that change places are refused; other writes are not."""

import pytest
import torch
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx

from openhpu.compiler.errors import CannotCompile
from openhpu.compiler.passes.exchanged_inputs import exchanged_inputs


def check(function, count=2):
    exchanged_inputs(make_fx(functionalize(function), tracing_mode="fake")(*(torch.randn(3, 3) for _ in range(count))))


def swapped(a, b):
    before = a.clone()
    a.copy_(b)
    b.copy_(before)
    return a + b


def rotated(a, b, c):
    before = a.clone()
    a.copy_(b)
    b.copy_(c.t())
    c.copy_(before)
    return a + b


def swapped_halves(a, b):
    before = a[:1].clone()
    a[:1].copy_(b[:1])
    b[:1].copy_(before)
    return a + b


@pytest.mark.parametrize(("function", "count"), [(swapped, 2), (rotated, 3)])
def test_an_exchange_is_refused(function, count):
    with pytest.raises(CannotCompile, match=r"aten::copy_: tensors exchange their contents"):
        check(function, count)


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: a.copy_(b) + 1,
        lambda a, b: (a.copy_(b), b.add_(1)),
        lambda a, b: (a.add_(b), b.mul_(a)),
        swapped_halves,
    ],
)
def test_other_writes_are_not(function):
    check(function)
