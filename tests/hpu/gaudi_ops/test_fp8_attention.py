"""Attention on fp8 operands, against the formula in float64 with the same roundings."""

import pytest
import torch

from tests.hpu.support import causal, exact_attention

ops = torch.ops.hpu
E4M3 = torch.float8_e4m3fn
FACTORS = (0.5, 0.25, 2.0, 64.0, 4.0, 1 / 64)  # d_scale of q, k, v; q_scale of s, o; d_scale of s


def inputs():
    q, k, v = (torch.randn(2, heads, 5, 8).to(E4M3) for heads in (4, 2, 2))
    return q, k, v


def rounded(x):
    return x.clamp(-240, 240).to(E4M3).double()


def formula(q, k, v, seen=None, sinks=None):
    """Probabilities as they are, and as they are held; the result before its scale; the scores."""
    q, k, v = (t.double() * f for t, f in zip((q, k, v), FACTORS, strict=False))
    _, exact, scores = exact_attention(q, k, v, 0.3, seen=causal(5) if seen is None else seen, sinks=sinks)
    held = rounded(exact * 64)
    return exact, held, held / 64 @ v.repeat_interleave(2, 1), scores


def close(actual, expected):
    """The same, or next to it in fp8 where the exact number is halfway."""
    torch.testing.assert_close(actual.double(), expected, rtol=0.13, atol=0.02)
    assert (actual.double() == expected).double().mean() > 0.97


@pytest.mark.parametrize("name", ["fp8_sdpa_fwd", "fp8_sdpa_fwd_dropout", "fp8_sdpa_fwd_non_dropout"])
def test_forward(everywhere, name):
    q, k, v = inputs()
    exact, held, out, _ = formula(q, k, v)
    given = (q, k, v, None, 0.0, 0.3, True, "None", *map(torch.tensor, FACTORS), True, None, "left")
    result, probabilities, keep, amax = everywhere(getattr(ops, name), *given)
    assert result.dtype is probabilities.dtype is E4M3
    assert keep.numel() == 0
    close(probabilities, held)
    close(result, rounded(out * 4))
    torch.testing.assert_close(amax.double(), exact.max(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", ["", "_dropout", "_dropout_seed", "_non_dropout"])
@pytest.mark.parametrize("tensors", [False, True])
def test_recomputable_forward(native, name, tensors):
    q, k, v = inputs()
    exact, _, out, _ = formula(q, k, v)
    scales = tuple(map(torch.tensor, FACTORS)) if tensors else FACTORS
    given = (q, k, v, None, 0.0, 0.3, True, False, "fast", *scales, True, True, None, "left")
    if name == "_dropout_seed":
        given = (torch.tensor([5]), *given)
    result, maximum, reciprocal, seed, amax_s, amax_o = native(getattr(ops, f"fp8_sdpa_recomp_fwd{name}"), *given)
    close(result, rounded(out * 4))
    assert maximum.shape == reciprocal.shape == (2, 4, 5, 1)
    assert seed.numel() == 0
    torch.testing.assert_close((amax_s.double(), amax_o.double()), (exact.max(), out.abs().max()), rtol=2e-2, atol=0)


def test_without_scales_it_measures_in_bfloat16(native):
    q, k, v = (t.bfloat16() for t in inputs())
    expected, exact, _ = exact_attention(q, k, v, 0.3)
    given = (q, k, v, None, 0.0, 0.3, False, False, "None", *[None] * 6, True, True, None, "left")
    out, *_, amax_s, amax_o = native(ops.fp8_sdpa_recomp_fwd, *given)
    assert out.dtype is torch.bfloat16
    torch.testing.assert_close(out.double(), expected, rtol=2**-7, atol=2**-8)
    largest = exact.max(), expected.abs().max()
    torch.testing.assert_close((amax_s.double(), amax_o.double()), largest, rtol=1e-2, atol=0)


FORWARD_SCALES = ("d_scale_q", "d_scale_k", "d_scale_v", "q_scale_s", "q_scale_o", "d_scale_s")
BACKWARD_SCALES = (
    "d_scale_q",
    "d_scale_k",
    "d_scale_v",
    "d_scale_s",
    "d_scale_do",
    "d_scale_ds",
    "q_scale_s",
    "q_scale_ds",
)


@pytest.mark.parametrize("p", [0.0, 0.3])
def test_backward(native, p):
    q, k, v = inputs()
    grad = torch.randn(2, 4, 5, 8).to(E4M3)

    def work(q, k, v, grad, seed):
        operands = {"q": q, "k": k, "v": v, "is_causal": True, "p": p, "scale": 0.3}
        out, probabilities, keep, _ = ops.fp8_sdpa_fwd_dropout_seed(
            seed=seed,
            **operands,
            attention_mask=None,
            softmax_mode="None",
            **dict.fromkeys(FORWARD_SCALES),
            is_amax_s=False,
            valid_seq_len=None,
            seq_padding_type="left",
        )
        grads = ops.fp8_sdpa_bwd(
            grad=grad,
            **operands,
            P=probabilities,
            dm=keep,
            **dict.fromkeys(BACKWARD_SCALES),
            is_amax_ds=True,
            fwd_out=out,
        )
        return keep, grads

    keep, (*grads, amax) = native(work, q, k, v, grad, torch.tensor([5]))
    a, b, c = (t.double().requires_grad_() for t in (q, k, v))
    out, _, s = exact_attention(a, b, c, 0.3, seen=causal(5), keep=keep / (1 - p) if p else 1.0)
    s.retain_grad()
    out.backward(grad.double())
    for actual, expected in zip(grads, (a.grad, b.grad, c.grad), strict=True):
        assert actual.dtype is torch.bfloat16
        torch.testing.assert_close(actual.double(), expected, rtol=0.02, atol=0.03)
    torch.testing.assert_close(amax.double(), s.grad.abs().max() * 0.3, rtol=0.02, atol=0)


def test_a_seed_is_a_dropout(native):
    q, k, v = (t.bfloat16() for t in inputs())

    def work(q, k, v, seed):
        arguments = (None, 0.4, 0.3, False, True, "None", *[None] * 6, False, False, None, "left")
        first = ops.fp8_sdpa_recomp_fwd_dropout_seed(seed, q, k, v, *arguments)
        return first[0], ops.fp8_sdpa_recomp_fwd_dropout_seed(seed, q, k, v, *arguments)[0], first[3]

    first, second, seed = native(work, q, k, v, torch.tensor([7]))
    assert torch.equal(first, second)
    assert seed.tolist() == [7]


def test_window_and_sinks(native):
    q, k, v = inputs()
    sinks = torch.tensor([0.5, -1.0, 2.0, 0.0])
    distance = torch.arange(5).unsqueeze(-1) - torch.arange(5)
    exact, _, out, with_sinks = formula(q, k, v, (distance >= 0) & (distance <= 2), sinks)
    given = (q, k, v, None, 0.0, 0.3, True, False, "None", *map(torch.tensor, FACTORS), True, False, None, "right")
    result, maximum, reciprocal, _, amax, _ = native(ops.fp8_sdpa_recomp_fwd, *given, (2, 0), sinks)
    close(result, rounded(out * 4))
    torch.testing.assert_close(amax.double(), exact.max(), rtol=1e-6, atol=0)
    torch.testing.assert_close(maximum.double(), with_sinks.amax(-1, keepdim=True), rtol=1e-6, atol=1e-6)
    total = (with_sinks - with_sinks.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True)
    torch.testing.assert_close(reciprocal.double(), 1 / total, rtol=1e-6, atol=0)
