"""hpex.normalization, as PyTorch's own forms."""

import pytest
import torch

from openhpu.interface.hpex.normalization import FusedClipNorm, FusedRMSNorm


@pytest.mark.parametrize("gamma_dtype", [torch.float32, torch.bfloat16])
def test_rms_norm(counted, gamma_dtype):
    x = torch.randn(3, 4, 8).bfloat16()
    gamma = (torch.rand(8) + 0.5).to(gamma_dtype)
    exact = x.double() * (x.double().square().mean(-1, keepdim=True) + 1e-5).rsqrt() * gamma.double()
    on_hpu, weight = x.to("hpu").requires_grad_(), gamma.to("hpu").requires_grad_()
    with counted() as difference:
        y = FusedRMSNorm.apply(on_hpu, weight, 1e-5, True, 0, False)
        y.sum().backward()
    assert difference["ops_fallback"] == 0
    assert y.dtype is on_hpu.grad.dtype is torch.bfloat16 and weight.grad.dtype is gamma_dtype
    assert ((y.cpu().double() - exact).abs() <= 2**-7 * exact.abs()).all()


@pytest.mark.parametrize("max_norm", [0.5, 100.0])
def test_clipping(max_norm):
    params = [torch.nn.Parameter(torch.randn(s, device="hpu")) for s in (3, 5)]
    theirs = [torch.nn.Parameter(p.detach().cpu()) for p in params]
    for p, q in zip(params, theirs, strict=True):
        q.grad = torch.randn(p.shape)
        p.grad = q.grad.to("hpu")
    norm = FusedClipNorm(params, max_norm).clip_norm(params)
    expected = torch.nn.utils.clip_grad_norm_(theirs, max_norm)
    torch.testing.assert_close(norm.cpu(), expected)
    torch.testing.assert_close([p.grad.cpu() for p in params], [q.grad for q in theirs])


def test_nothing_to_clip():
    parameter = torch.nn.Parameter(torch.ones(2, device="hpu"))
    assert FusedClipNorm([parameter], 1.0).clip_norm([parameter]) == 0
