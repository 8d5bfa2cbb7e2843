"""Attention's operators, against the formula in float64."""

import math

import pytest
import torch

ops = torch.ops.hpu


def inputs(*shape, key_heads=None, key_length=None, dtype=torch.float32):
    torch.manual_seed(0)
    batch, heads, length, size = shape
    kv = (batch, key_heads or heads, key_length or length, size)
    return torch.randn(shape).to(dtype), torch.randn(kv).to(dtype), torch.randn(kv).to(dtype)


def formula(q, k, v, mask=None, scale=0.3, is_causal=False, seen=None, keep=None, p=0.0):
    """The result and the probabilities."""
    q, k, v = (t.double() for t in (q, k, v))
    groups = q.shape[1] // k.shape[1]
    k, v = (torch.cat([t[:, i : i + 1].expand(-1, groups, -1, -1) for i in range(t.shape[1])], 1) for t in (k, v))
    s = torch.einsum("bhqd,bhkd->bhqk", q, k) * scale
    if mask is not None:
        s = s.masked_fill(~mask, -math.inf) if mask.dtype is torch.bool else s + mask
    if is_causal:
        s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    if seen is not None:
        s = s.masked_fill(~seen, -math.inf)
    e = torch.where(s == -math.inf, 0.0, (s - s.amax(-1, keepdim=True).nan_to_num(neginf=0.0)).exp())
    total = e.sum(-1, keepdim=True)
    probabilities = torch.where(total == 0, 0.0, e / total)
    used = probabilities if keep is None else probabilities * keep / (1 - p)
    return used @ v, probabilities


@pytest.mark.parametrize("name", ["sdpa_fwd", "sdpa_fwd_non_dropout"])
@pytest.mark.parametrize("case", ["plain", "causal", "added", "bool", "grouped"])
def test_forward(native, name, case):
    q, k, v = inputs(2, 4, 5, 8, key_heads=2 if case == "grouped" else None, key_length=6)
    mask = {"added": torch.randn(2, 1, 5, 6), "bool": torch.rand(2, 1, 5, 6) > 0.3}.get(case)
    causal = case in ("causal", "grouped")
    out, probabilities, keep = native(
        lambda *t: getattr(ops, name)(*t, 0.0, 0.3, causal, "None", None, "left"), q, k, v, mask
    )
    expected = formula(q, k, v, mask, 0.3, causal)
    torch.testing.assert_close((out.double(), probabilities.double()), expected, rtol=1e-5, atol=1e-6)
    assert keep.numel() == 0


def test_dropout_drops_what_its_mask_says(native):
    q, k, v = inputs(2, 2, 16, 4, key_length=64)
    out, probabilities, keep = native(lambda *t: ops.sdpa_fwd(*t, None, 0.4, 0.3, False, "None", None, "left"), q, k, v)
    expected = formula(q, k, v, keep=keep, p=0.4)
    torch.testing.assert_close((out.double(), probabilities.double()), expected, rtol=1e-5, atol=1e-6)
    n = keep.numel()
    assert abs(keep.double().mean() - 0.6) < 5 * (0.24 / n) ** 0.5


def reference_gradients(q, k, v, grad, keep=None, p=0.0, is_causal=True):
    q, k, v = (t.double().requires_grad_() for t in (q, k, v))
    formula(q, k, v, None, 0.3, is_causal, keep=keep, p=p)[0].backward(grad.double())
    return q.grad, k.grad, v.grad


@pytest.mark.parametrize("p", [0.0, 0.25])
@pytest.mark.parametrize("key_heads", [4, 2])
def test_backward_from_probabilities(native, p, key_heads):
    q, k, v = inputs(2, 4, 6, 4, key_heads=key_heads)
    grad = torch.randn(q.shape)

    def work(q, k, v, grad):
        out, probabilities, keep = ops.sdpa_fwd(q, k, v, None, p, 0.3, True, "None", None, "left")
        return keep, ops.sdpa_bwd(grad, q, k, v, probabilities, keep, True, p, 0.3, out)

    keep, grads = native(work, q, k, v, grad)
    expected = reference_gradients(q, k, v, grad, keep if p else None, p)
    torch.testing.assert_close(tuple(g.double() for g in grads), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("p", [0.0, 0.25])
def test_backward_by_recomputation(everywhere, p):
    q, k, v = inputs(2, 4, 6, 4)
    grad, seed = torch.randn(q.shape), torch.tensor([11], dtype=torch.int32)

    def work(q, k, v, grad, seed):
        arguments = (None, p, 0.3, True)
        out, m, linv, used = ops.sdpa_recomp_fwd_dropout_seed(seed, q, k, v, *arguments, True, "None", None, "left")
        kept = ops.sdpa_fwd_dropout_seed(seed, q, k, v, *arguments, "None", None, "left")
        grads = ops.sdpa_recomp_bwd(grad, q, k, v, None, m, linv, used, True, p, 0.3, "None", out)
        return out, kept[0], kept[2], grads

    out, same, keep, grads = everywhere(work, q, k, v, grad, seed)
    assert torch.equal(out, same)  # a seed is a dropout
    expected = reference_gradients(q, k, v, grad, keep if p else None, p)
    torch.testing.assert_close(tuple(g.double() for g in grads), expected, rtol=1e-4, atol=1e-5)


def test_bfloat16_is_rounded_once_and_autocast_lowers():
    q, k, v = inputs(1, 2, 5, 8, dtype=torch.bfloat16)
    arguments = (None, 0.0, 0.3, False, "None", None, "left")
    out = ops.sdpa_fwd(q.to("hpu"), k.to("hpu"), v.to("hpu"), *arguments)[0]
    expected = formula(q, k, v)[0]
    assert ((out.cpu().double() - expected).abs() <= 2**-8 * expected.abs() + 1e-6).all()
    with torch.autocast("hpu"):
        lowered = ops.sdpa_fwd(q.to("hpu").float(), k.to("hpu").float(), v.to("hpu").float(), *arguments)[0]
    assert lowered.dtype is torch.bfloat16 and torch.equal(lowered, out)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": torch.ones(1, 2, 5, 3)}, r"k is .*; expected a last dimension of 4"),
        ({"v": torch.ones(1, 2, 6, 4)}, r"v is .*; expected 5 positions"),
        ({"k": torch.ones(1, 3, 5, 4), "v": torch.ones(1, 3, 5, 4)}, r"k is .*divides q's 2"),
        ({"p": 1.5}, "p is 1.5; expected a probability"),
        ({"softmax_mode": "slow"}, "softmax_mode is 'slow'; expected one of None, fast, fp32"),
        ({"valid_seq_len": torch.ones(3)}, r"valid_seq_len is .*one length for each of the 1 sequences"),
        ({"valid_seq_len": torch.ones(1), "seq_padding_type": "top"}, "seq_padding_type is 'top'"),
    ],
)
def test_bad_input(change, message):
    arguments = {
        "q": torch.ones(1, 2, 5, 4), "k": torch.ones(1, 2, 5, 4), "v": torch.ones(1, 2, 5, 4), "attention_mask": None,
        "p": 0.0, "scale": 1.0, "is_causal": False, "softmax_mode": "None", "valid_seq_len": None,
        "seq_padding_type": "left",
    } | change  # fmt: skip
    arguments = {k: v.to("hpu") if isinstance(v, torch.Tensor) else v for k, v in arguments.items()}
    with pytest.raises(RuntimeError, match=message):
        ops.sdpa_fwd(**arguments)
