"""Normalization, against formulas in float64."""

import pytest
import torch

from tests.hpu.support import close, wide

ops = torch.ops.hpu


@pytest.mark.parametrize("name", ["rms_norm", "rms_norm_fast"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rms_norm_and_its_backward(everywhere, name, dtype):
    x = torch.randn(3, 4, 8).to(dtype)
    grad = torch.randn(3, 4, 8).to(dtype)
    gamma = torch.rand(8) + 0.5

    def work(x, grad, gamma):
        y, reciprocal = getattr(ops, name)(x, gamma, 1e-5)
        return y, reciprocal, getattr(ops, name + "_backward")(grad, x, gamma, reciprocal, True, 0)

    y, reciprocal, (grad_x, grad_gamma) = everywhere(work, x, grad, gamma)
    x64, gamma64 = wide([x, gamma])
    root = (x64.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
    expected = x64 * root * gamma64
    expected.backward(grad.double())
    assert y.dtype is grad_x.dtype is dtype
    assert reciprocal.dtype is grad_gamma.dtype is torch.float32
    rounding = 2**-7 if dtype is torch.bfloat16 else 1e-5
    close([y, grad_x], [expected, x64.grad], rounding, rounding)
    close([reciprocal, grad_gamma], [root, gamma64.grad], atol=1e-5)


@pytest.mark.parametrize("affine", [True, False])
def test_instance_norm_and_its_backward(native, affine):
    x, grad = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 4, 5)
    parts = [torch.rand(3) + 0.5, torch.randn(3)] if affine else [None, None]

    def work(x, grad, weight, bias):
        y, mean, reciprocal = ops.instance_norm(x, weight, bias, 1e-5)
        return y, mean, ops.instance_norm_backward(x, grad, mean, reciprocal, weight)

    y, mean, grads = native(work, x, grad, *parts)
    x64, *parts64 = wide([x, *(parts if affine else [torch.ones(3), torch.zeros(3)])])
    expected = torch.nn.functional.instance_norm(x64, weight=parts64[0], bias=parts64[1])
    expected.backward(grad.double())
    close([y, mean], [expected, x.double().mean((2, 3))])
    close(list(grads), [t.grad for t in (x64, *parts64)], 1e-4, 1e-5)


@pytest.mark.parametrize("name", ["fused_clip_norm", "fused_norm_", "fused_norm_lazy"])
@pytest.mark.parametrize("max_norm", [1.0, 100.0])
def test_gradients_are_clipped(everywhere, name, max_norm):
    grads = [torch.randn(5), torch.randn(2, 3)]

    def work(a, b, limit):
        a, b = a.clone(), b.clone()
        return getattr(ops, name)([a, b], limit, 2.0), a, b

    norm, *clipped = everywhere(work, *grads, torch.tensor([max_norm]))
    exact = torch.cat([g.double().flatten() for g in grads]).norm()
    close([norm, *clipped], [exact, *(g.double() * min(1.0, max_norm / (exact + 1e-6)) for g in grads)], 1e-6, 0)
