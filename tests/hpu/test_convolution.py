"""Convolutions, all through PyTorch's CPU kernels, in every form of the module."""

import pytest
import torch
from torch import nn

from .support import agree

F = nn.functional

CASES = {
    "1d": (lambda x, w, b: F.conv1d(x, w, b, padding=1), (2, 3, 9), (4, 3, 3)),
    "2d": (lambda x, w, b: F.conv2d(x, w, b), (2, 3, 8, 8), (4, 3, 3, 3)),
    "3d": (lambda x, w, b: F.conv3d(x, w, b), (1, 2, 5, 5, 5), (4, 2, 2, 2, 2)),
    "stride and padding": (lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1), (2, 3, 8, 8), (4, 3, 3, 3)),
    "dilation": (lambda x, w, b: F.conv2d(x, w, b, dilation=2), (2, 3, 8, 8), (4, 3, 3, 3)),
    "groups": (lambda x, w, b: F.conv2d(x, w, b, groups=2), (2, 4, 8, 8), (4, 2, 3, 3)),
    "depthwise": (lambda x, w, b: F.conv2d(x, w, b, groups=4), (2, 4, 8, 8), (4, 1, 3, 3)),
    "pointwise": (lambda x, w, b: F.conv2d(x, w, b), (2, 4, 8, 8), (4, 4, 1, 1)),
    "no bias": (lambda x, w, b: F.conv2d(x, w) + b.sum(), (2, 3, 8, 8), (4, 3, 3, 3)),
    "same": (lambda x, w, b: F.conv2d(x, w, b, padding="same"), (2, 3, 8, 8), (4, 3, 3, 3)),
    "unbatched": (lambda x, w, b: F.conv2d(x, w, b), (3, 8, 8), (4, 3, 3, 3)),
    "transposed": (lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2), (2, 3, 4, 4), (3, 4, 3, 3)),
    "transposed 1d": (lambda x, w, b: F.conv_transpose1d(x, w, b, output_padding=1, stride=2), (2, 3, 4), (3, 4, 3)),
    "transposed 3d": (lambda x, w, b: F.conv_transpose3d(x, w, b), (1, 2, 3, 3, 3), (2, 4, 2, 2, 2)),
    "empty batch": (lambda x, w, b: F.conv2d(x, w, b), (0, 3, 8, 8), (4, 3, 3, 3)),
}


def operands(x, w, dtype):
    torch.manual_seed(0)
    return [torch.randn(shape, dtype=dtype).requires_grad_() for shape in (x, w, (4,))]


def with_gradients(function):
    def run(*arguments):
        out = function(*arguments)
        return out.detach(), torch.autograd.grad(out.square().mean(), arguments)

    return run


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_forward_and_backward_are_those_of_the_cpu(name, dtype):
    function, x, w = CASES[name]
    agree(with_gradients(function), *operands(x, w, dtype), exact=False)


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


@pytest.mark.parametrize("module", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_modules(module):
    torch.manual_seed(0)
    net, x = module(4, 6, num_layers=2, bidirectional=True), torch.randn(5, 3, 4)
    expected = net(x)[0].detach()
    actual = net.to("hpu")(x.to("hpu"))[0]
    torch.testing.assert_close(actual.detach().cpu(), expected)
    actual.sum().backward()
    packed = nn.utils.rnn.pack_padded_sequence(x.to("hpu"), torch.tensor([5, 3, 2]))
    assert packed.is_hpu
    assert net(packed)[0].data.device.type == "hpu"
