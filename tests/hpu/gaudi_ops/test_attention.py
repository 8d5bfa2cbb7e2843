"""Attention's operators, against the formula in float64."""

import pytest
import torch

from tests.hpu.support import causal, exact_attention

ops = torch.ops.hpu


def inputs(*shape, key_heads=None, key_length=None, dtype=torch.float32):
    batch, heads, length, size = shape
    kv = (batch, key_heads or heads, key_length or length, size)
    return torch.randn(shape).to(dtype), torch.randn(kv).to(dtype), torch.randn(kv).to(dtype)


@pytest.mark.parametrize("name", ["sdpa_fwd", "sdpa_fwd_dropout", "sdpa_fwd_non_dropout"])
@pytest.mark.parametrize("case", ["plain", "causal", "added", "bool", "grouped"])
def test_forward(native, name, case):
    q, k, v = inputs(2, 4, 5, 8, key_heads=2 if case == "grouped" else None, key_length=6)
    mask = {"added": torch.randn(2, 1, 5, 6), "bool": torch.rand(2, 1, 5, 6) > 0.3}.get(case)
    is_causal = case in ("causal", "grouped")
    given = (q, k, v, mask, 0.0, 0.3, is_causal, "None", None, "left")
    out, probabilities, keep = native(getattr(ops, name), *given)
    seen = None
    if case == "bool":
        seen = mask
    elif is_causal:
        seen = torch.ones(5, 6, dtype=torch.bool).tril()
    *expected, _ = exact_attention(q, k, v, 0.3, seen=seen, added=mask if case == "added" else 0.0)
    torch.testing.assert_close([out.double(), probabilities.double()], expected, rtol=1e-5, atol=1e-6)
    assert keep.numel() == 0


@pytest.mark.parametrize(
    ("name", "p"), [("sdpa_recomp_fwd", 0.0), ("sdpa_recomp_fwd_dropout", 0.0), ("sdpa_recomp_fwd_non_dropout", 0.5)]
)
def test_recomputable_forward(native, name, p):
    """The result, and of each row of scores its maximum and 1 / the sum of exponentials."""
    q, k, v = inputs(2, 4, 5, 8, key_heads=2)
    given = (q, k, v, None, p, 0.3, True, True, "None", None, "left")
    out, maximum, reciprocal, seed = native(getattr(ops, name), *given)
    expected, _, scores = exact_attention(q, k, v, 0.3, seen=causal(5))
    top = scores.amax(-1, keepdim=True)
    exact = [expected, top, 1.0 / torch.exp(scores - top).sum(-1, keepdim=True)]
    found = [each.double() for each in (out, maximum, reciprocal)]
    torch.testing.assert_close(found, exact, rtol=1e-5, atol=1e-6)
    assert seed.numel() == 0


def test_dropout_drops_what_its_mask_says(native):
    q, k, v = inputs(2, 2, 16, 4, key_length=64)
    out, probabilities, keep = native(lambda *t: ops.sdpa_fwd(*t, None, 0.4, 0.3, False, "None", None, "left"), q, k, v)
    *expected, _ = exact_attention(q, k, v, 0.3, keep=keep / 0.6)
    torch.testing.assert_close([out.double(), probabilities.double()], expected, rtol=1e-5, atol=1e-6)
    assert abs(keep.double().mean() - 0.6) < 5 * (0.24 / keep.numel()) ** 0.5


def reference_gradients(q, k, v, grad, keep, p):
    q, k, v = (t.double().requires_grad_() for t in (q, k, v))
    keep = keep / (1 - p) if p else 1.0
    exact_attention(q, k, v, 0.3, seen=causal(q.shape[2]), keep=keep)[0].backward(grad.double())
    return q.grad, k.grad, v.grad


@pytest.mark.parametrize("p", [0.0, 0.25])
@pytest.mark.parametrize("key_heads", [4, 2])
def test_backward_from_probabilities(native, p, key_heads):
    q, k, v = inputs(2, 4, 6, 4, key_heads=key_heads)
    grad = torch.randn(q.shape)

    def work(q, k, v, grad):
        out, probabilities, keep = ops.sdpa_fwd(
            q=q,
            k=k,
            v=v,
            attention_mask=None,
            p=p,
            scale=0.3,
            is_causal=True,
            softmax_mode="None",
            valid_seq_len=None,
            seq_padding_type="left",
        )
        grads = ops.sdpa_bwd(
            grad=grad, q=q, k=k, v=v, P=probabilities, dm=keep, is_causal=True, p=p, scale=0.3, fwd_out=out
        )
        return keep, grads

    keep, grads = native(work, q, k, v, grad)
    expected = reference_gradients(q, k, v, grad, keep, p)
    torch.testing.assert_close(tuple(g.double() for g in grads), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("p", [0.0, 0.25])
def test_backward_by_recomputation(everywhere, p):
    q, k, v = inputs(2, 4, 6, 4)
    grad, seed = torch.randn(q.shape), torch.tensor([11], dtype=torch.int32)

    def work(q, k, v, grad, seed):
        arguments = (None, p, 0.3, True)
        out, m, linv, used = ops.sdpa_recomp_fwd_dropout_seed(seed, q, k, v, *arguments, True, "None", None, "left")
        kept = ops.sdpa_fwd_dropout_seed(seed, q, k, v, *arguments, "None", None, "left")
        grads = ops.sdpa_recomp_bwd(
            grad=grad,
            q=q,
            k=k,
            v=v,
            attention_mask=None,
            m=m,
            linv=linv,
            seed=used,
            is_causal=True,
            p=p,
            scale=0.3,
            softmax_mode="None",
            fwd_out=out,
        )
        return out, kept[0], kept[2], grads

    out, same, keep, grads = everywhere(work, q, k, v, grad, seed)
    assert torch.equal(out, same)  # a seed is a dropout
    expected = reference_gradients(q, k, v, grad, keep, p)
    torch.testing.assert_close(tuple(g.double() for g in grads), expected, rtol=1e-4, atol=1e-5)


def test_bfloat16_is_rounded_once_and_autocast_lowers():
    q, k, v = inputs(1, 2, 5, 8, dtype=torch.bfloat16)
    arguments = (None, 0.0, 0.3, False, "None", None, "left")
    out = ops.sdpa_fwd(q.to("hpu"), k.to("hpu"), v.to("hpu"), *arguments)[0]
    expected = exact_attention(q, k, v, 0.3)[0]
    assert ((out.cpu().double() - expected).abs() <= 2**-8 * expected.abs() + 1e-6).all()
    with torch.autocast("hpu"):
        lowered = ops.sdpa_fwd(q.to("hpu").float(), k.to("hpu").float(), v.to("hpu").float(), *arguments)[0]
    assert lowered.dtype is torch.bfloat16
    assert torch.equal(lowered, out)
