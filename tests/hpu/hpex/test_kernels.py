"""hpex' classes and functions call the operators whose numbers are tested with them."""

import pytest
import torch

from openhpu.interface.hpex import kernels, rotary
from openhpu.interface.hpex.movingavrg import FusedEMA
from openhpu.interface.hpex.normalization import FusedClipNorm, FusedRMSNorm
from tests.hpu.support import close

ops = torch.ops.hpu


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_ctc_trains(reduction):
    log_probs = torch.randn(8, 2, 4).log_softmax(-1)
    rest = torch.randint(1, 4, (2, 3)), torch.tensor([8, 7]), torch.tensor([3, 2])
    on_hpu = log_probs.to("hpu").requires_grad_()
    on_cpu = log_probs.requires_grad_()
    kernels.CTCLoss.apply(on_hpu, *(t.to("hpu") for t in rest), 0, reduction).sum().backward()
    torch.nn.functional.ctc_loss(on_cpu, *rest, 0, reduction).sum().backward()
    torch.testing.assert_close(on_hpu.grad.cpu(), on_cpu.grad, rtol=1e-4, atol=1e-5)


def test_softmaxes_and_seeds():
    x = torch.randn(2, 3, 3, device="hpu")
    assert torch.equal(kernels.CustomSoftmax.apply(x, 0), ops.custom_softmax(x, 0))
    assert torch.equal(kernels.triu_masked_softmax(x), ops.scaled_triangular_softmax(x, 1.0))
    counts = torch.tensor([1, 3], device="hpu")
    assert torch.equal(kernels.RaggedSoftmax(x, -1, counts), ops.ragged_softmax(x, -1, False, counts))
    assert kernels.RandomSeed.random_seed(x).shape == (1,)


def test_bags_and_what_their_backward_needs():
    bag = kernels.EmbeddingBag(9, 3).to("hpu")
    indices, offsets = torch.tensor([4, 1, 4, 8, 0]).to("hpu"), torch.tensor([0, 2, 2, 5]).to("hpu")
    out = bag(indices, offsets)
    reference = torch.nn.functional.embedding_bag(
        indices.cpu(), bag.weight.detach().cpu(), offsets.cpu(), mode="sum", include_last_offset=True
    )
    torch.testing.assert_close(out.detach().cpu(), reference)
    grad = torch.randn(3, 3).to("hpu")
    out.backward(grad)
    unique, bags, starts, counts = kernels.EmbeddingBagPreproc(indices, offsets)
    assert counts.tolist() == [5, 4]
    assert unique.tolist() == [0, 1, 4, 8]
    rows = ops.embedding_bag_sum(grad, bags, starts, counts, 0)
    torch.testing.assert_close(rows, bag.weight.grad[unique])


@pytest.mark.parametrize("as_numbers", [True, False])
def test_fp8_attention(as_numbers):
    q, k, v = (torch.randn(1, 2, 4, 8, device="hpu").to(torch.float8_e4m3fn) for _ in range(3))
    numbers = {"d_scale_q": 1.0, "d_scale_k": 0.5, "d_scale_v": 1.0, "q_scale_s": 64.0, "d_scale_s": 1 / 64}
    if as_numbers:
        scales = numbers | {"q_scale_o": 1.0}
    else:
        scales = {name: torch.tensor(number, device="hpu") for name, number in numbers.items()}
    out, amax_s, amax_o = kernels.fp8_fused_sdpa(
        q, k, v, is_causal=True, softmax_mode="fast", **scales, is_amax_s=True, is_amax_o=True
    )
    exact = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double() / 2, v.double(), is_causal=True)
    torch.testing.assert_close(out.double(), exact, rtol=0.1, atol=0.1)
    assert amax_s.item() == 1.0  # the first row sees one key
    torch.testing.assert_close(amax_o.double(), exact.abs().max(), rtol=0.05, atol=0.05)


def test_moving_averages():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).to("hpu")
    average = FusedEMA(model, decay=0.5, updates=10**9)
    before = average.ema[0].weight.clone()
    with torch.no_grad():
        model[0].weight.add_(2.0)
    model(torch.ones(3, 2, device="hpu"))
    average.update(model)
    torch.testing.assert_close(average.ema[0].weight, before + 1.0)
    assert average.ema[1].num_batches_tracked.item() == 1
    model.names = ["a"]
    average.update_attr(model)
    assert average.ema.names == ["a"]
    assert not average.ema.training


@pytest.mark.parametrize("gamma_dtype", [torch.float32, torch.bfloat16])
def test_rms_norm(no_fallback, gamma_dtype):
    x = torch.randn(3, 4, 8).bfloat16()
    gamma = (torch.rand(8) + 0.5).to(gamma_dtype)
    exact = x.double() * (x.double().square().mean(-1, keepdim=True) + 1e-5).rsqrt() * gamma.double()
    on_hpu, weight = x.to("hpu").requires_grad_(), gamma.to("hpu").requires_grad_()
    y = FusedRMSNorm.apply(on_hpu, weight, 1e-5, True, 0, False)
    y.sum().backward()
    assert y.dtype is on_hpu.grad.dtype is torch.bfloat16
    assert weight.grad.dtype is gamma_dtype
    assert ((y.cpu().double() - exact).abs() <= 2**-7 * exact.abs()).all()


@pytest.mark.parametrize("max_norm", [0.5, 100.0])
def test_clipping(max_norm):
    params = [torch.nn.Parameter(torch.randn(s, device="hpu")) for s in (3, 5)]
    theirs = [torch.nn.Parameter(p.detach().cpu()) for p in params]
    for p, q in zip(params, theirs, strict=True):
        q.grad = torch.randn(p.shape)
        p.grad = q.grad.to("hpu")
    norm = FusedClipNorm(params, max_norm).clip_norm(params)
    torch.testing.assert_close(norm.cpu(), torch.nn.utils.clip_grad_norm_(theirs, max_norm))
    torch.testing.assert_close([p.grad.cpu() for p in params], [q.grad for q in theirs])


def test_nothing_to_clip():
    parameter = torch.nn.Parameter(torch.ones(2, device="hpu"))
    assert FusedClipNorm([parameter], 1.0).clip_norm([parameter]) == 0


def rotary_inputs():
    x, angle = torch.randn(2, 3, 5, 8, device="hpu"), torch.rand(9, 8, device="hpu")
    return x, angle.cos(), angle.sin(), torch.randint(0, 9, (2, 5), device="hpu")


def test_the_first_two_helpers():
    x, cos, sin, ids = rotary_inputs()
    pairwise = rotary.RotaryPosEmbeddingMode.PAIRWISE
    for found, *more in (
        (rotary.RotaryPosEmbeddingHelperV1.apply(x, cos, sin, 3), None, 3, 0),
        (rotary.RotaryPosEmbeddingHelperV2.apply(x, cos, sin, ids), ids, 0, 0),
        (rotary.apply_rotary_pos_emb(x, cos, sin, ids, 0, pairwise), ids, 0, 1),
    ):
        assert torch.equal(found, ops.rotary_pos_embedding(x, sin, cos, *more))


def test_a_cache_rotates_the_first_coordinates():
    x = torch.randn(5, 2, 3, 8)
    angle = torch.rand(7, 1, 2) * 6
    cache = torch.stack((angle.cos(), angle.sin()), -1)
    y = rotary.apply_rotary_pos_emb(x.to("hpu"), cache.to("hpu")).cpu()
    pairs = torch.view_as_complex(x[..., :4].double().unflatten(-1, (2, 2)).contiguous())
    turn = torch.polar(torch.ones(()).double(), angle[:5].double())[:, :, None]
    close(y[..., :4], torch.view_as_real(pairs * turn).flatten(-2))
    assert torch.equal(y[..., 4:], x[..., 4:])
    assert torch.equal(rotary.RotaryPosEmbeddingHelperV3.apply(x.to("hpu"), cache.to("hpu")).cpu(), y)


def test_a_cache_whose_batch_comes_first():
    x = torch.randn(1, 3, 5, 8)
    angle = torch.rand(1, 7, 2) * 6  # [batch, heads, length, dimension]
    cache = torch.stack((angle.cos(), angle.sin()), -1)
    y = rotary.RotaryPosEmbeddingHelperV3.apply(x.to("hpu"), cache.to("hpu")).cpu()
    moved = x.permute(2, 0, 1, 3).to("hpu")
    other = rotary.RotaryPosEmbeddingHelperV3.apply(moved, cache.transpose(0, 1).to("hpu")).cpu()
    assert torch.equal(y, other.permute(1, 2, 0, 3))
