"""Normalization, against formulas in float64."""

import pytest
import torch

ops = torch.ops.hpu


@pytest.mark.parametrize("name", ["rms_norm", "rms_norm_fast"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rms_norm_and_its_backward(everywhere, name, dtype):
    x, grad, gamma = torch.randn(3, 4, 8).to(dtype), torch.randn(3, 4, 8).to(dtype), torch.rand(8) + 0.5

    def work(x, grad, gamma):
        y, reciprocal = getattr(ops, name)(x, gamma, 1e-5)
        return y, reciprocal, getattr(ops, name + "_backward")(grad, x, gamma, reciprocal, True, 0)

    y, reciprocal, (grad_x, grad_gamma) = everywhere(work, x, grad, gamma)
    wide, weight = x.double().requires_grad_(), gamma.double().requires_grad_()
    root = (wide.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
    (wide * root * weight).backward(grad.double())
    close = {"rtol": 2**-7, "atol": 2**-7} if dtype is torch.bfloat16 else {"rtol": 1e-5, "atol": 1e-6}
    assert y.dtype is grad_x.dtype is dtype and reciprocal.dtype is grad_gamma.dtype is torch.float32
    torch.testing.assert_close(y.double(), (wide * root * weight).detach(), **close)
    torch.testing.assert_close(reciprocal.double(), root.detach(), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(grad_x.double(), wide.grad, **close)
    torch.testing.assert_close(grad_gamma.double(), weight.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("affine", [True, False])
def test_instance_norm_and_its_backward(native, affine):
    x, grad = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 4, 5)
    weight, bias = (torch.rand(3) + 0.5, torch.randn(3)) if affine else (None, None)

    def work(x, grad, weight, bias):
        y, mean, reciprocal = ops.instance_norm(x, weight, bias, 1e-5)
        return y, mean, ops.instance_norm_backward(x, grad, mean, reciprocal, weight)

    y, mean, grads = native(work, x, grad, weight, bias)
    wide = x.double().requires_grad_()
    parts = [None if t is None else t.double().requires_grad_() for t in (weight, bias)]
    mu, var = wide.mean((2, 3), keepdim=True), wide.var((2, 3), keepdim=True, unbiased=False)
    expected = (wide - mu) / (var + 1e-5).sqrt()
    if affine:
        expected = expected * parts[0][:, None, None] + parts[1][:, None, None]
    expected.backward(grad.double())
    torch.testing.assert_close(y.double(), expected.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(mean.double(), mu.detach().flatten(1), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(grads[0].double(), wide.grad, rtol=1e-4, atol=1e-5)
    if affine:
        torch.testing.assert_close([g.double() for g in grads[1:]], [t.grad for t in parts], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["fused_clip_norm", "fused_norm_", "fused_norm_lazy"])
@pytest.mark.parametrize("max_norm", [1.0, 100.0])
def test_gradients_are_clipped(everywhere, name, max_norm):
    grads = [torch.randn(5), torch.randn(2, 3)]

    def work(a, b, limit):
        a, b = a.clone(), b.clone()
        return getattr(ops, name)([a, b], limit, 2.0), a, b

    norm, *clipped = everywhere(work, *grads, torch.tensor([max_norm]))
    exact = torch.cat([g.double().flatten() for g in grads]).norm()
    factor = min(1.0, max_norm / (exact + 1e-6))
    torch.testing.assert_close(norm.double(), exact, rtol=1e-6, atol=0)
    torch.testing.assert_close([g.double() for g in clipped], [g.double() * factor for g in grads], rtol=1e-6, atol=0)
