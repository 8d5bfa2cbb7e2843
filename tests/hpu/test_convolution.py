"""Convolutions: layouts and gradients. Their numbers in each form are compared by the conformance suite."""

import torch
from torch import nn

from .support import agree

F = nn.functional


def operands(x, w, dtype):
    torch.manual_seed(0)
    return [torch.randn(shape, dtype=dtype).requires_grad_() for shape in (x, w, (4,))]


def test_channels_last_stays_channels_last():
    x, w, b = operands((2, 3, 8, 8), (4, 3, 3, 3), torch.float32)
    x = x.detach().to(memory_format=torch.channels_last)

    def program(x, w, b):
        out = F.conv2d(x, w, b)
        assert out.is_contiguous(memory_format=torch.channels_last)
        return out.detach()

    agree(program, x, w, b, exact=False)


def test_double_backward():
    x, w, b = operands((1, 2, 5, 5), (4, 2, 3, 3), torch.float64)
    assert torch.autograd.gradgradcheck(F.conv2d, tuple(v.detach().to("hpu").requires_grad_() for v in (x, w, b)))


def test_only_the_gradients_that_are_asked_for():
    x, w, b = (v.detach().to("hpu") for v in operands((2, 3, 8, 8), (4, 3, 3, 3), torch.float32))
    w.requires_grad_()
    F.conv2d(x, w, b).sum().backward()
    assert w.grad is not None
    assert x.grad is None


def test_the_operator_is_recorded_as_one(counted):
    x, w, b = (v.detach().to("hpu") for v in operands((2, 3, 8, 8), (4, 3, 3, 3), torch.float32))
    F.conv2d(x, w, b)
    with counted() as work:
        F.conv2d(x, w, b)
    assert work["ops_issued"] == 1
    assert work["ops_fallback"] == 0
