"""Mixtures of experts with biases, on MXFP4 weights and with scales of each token, against loops in float64."""

from functools import partial

import pytest
import torch

from tests.hpu import support

ops = torch.ops.hpu
mixture = partial(support.mixture, first=2)
HIDDEN = 64
INNER = 32
EXPERTS = 4


def inputs(dtype=torch.float32):
    x = torch.randn(6, HIDDEN, dtype=dtype)
    routing = torch.randint(0, EXPERTS, (6, 2), dtype=torch.int32) + 2
    return x, routing, torch.rand(6, 2, dtype=dtype)


def gpt_oss(pairs, alpha=1.702, limit=7.0):
    gate = pairs[0::2].clamp(max=limit)
    up = pairs[1::2].clamp(-limit, limit)
    return gate * torch.sigmoid(alpha * gate) * (up + 1)


def packed(rows, columns):
    """Four-bit numbers of [rows, columns]: packed, their scales, and their values."""
    table = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64)
    codes = torch.randint(0, 16, (rows, columns), dtype=torch.uint8)
    scales = torch.randint(122, 126, (rows, columns // 32), dtype=torch.uint8)
    values = table[codes.int()] * 2.0 ** (scales.double() - 127).repeat_interleave(32, 1)
    return codes[:, ::2] | (codes[:, 1::2] << 4), scales, values


@pytest.mark.parametrize("permuted", [False, True])
def test_biases(everywhere, permuted):
    x, routing, weights = inputs()
    w12 = [torch.randn(2 * INNER, HIDDEN) for _ in range(EXPERTS)]
    w3 = [torch.randn(HIDDEN, INNER) for _ in range(EXPERTS)]
    biases = [[torch.randn(n) for _ in range(EXPERTS)] for n in (2 * INNER, HIDDEN)]

    def between(i, row):
        return gpt_oss(w12[i].double() @ row + biases[0][i])

    def expert(i, row):
        return w3[i].double() @ between(i, row) + biases[1][i]

    given = [[w if permuted else w.t().contiguous() for w in ws] for ws in (w12, w3)]
    given = (x, routing, weights, *given, *biases, permuted, 2, 5)
    y = everywhere(ops.mixture_of_experts.bias_fused_weights, *given)
    again, amax = everywhere(ops.mixture_of_experts.measurement_bias_fused_weights, *given)
    torch.testing.assert_close(y.double(), mixture(x, routing, weights, expert), rtol=1e-4, atol=1e-3)
    assert torch.equal(y, again)
    largest = [max(between(i, row).max() for row in x.double()) for i in range(EXPERTS)]
    torch.testing.assert_close(amax.double(), torch.tensor(largest), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("as_numbers", [False, True])
def test_fp8_with_biases(native, as_numbers):
    fp8 = torch.float8_e4m3fn
    x, routing, weights = inputs()
    x = x.to(fp8)
    w12 = [(torch.randn(HIDDEN, 2 * INNER) / 4).to(fp8) for _ in range(EXPERTS)]
    w3 = [torch.randn(INNER, HIDDEN).to(fp8) for _ in range(EXPERTS)]
    biases = [[torch.randn(n) for _ in range(EXPERTS)] for n in (2 * INNER, HIDDEN)]
    between = [0.05, 0.1, 0.02, 0.04]

    def expert(i, row):
        inner = gpt_oss(0.5 * w12[i].double().t() @ (0.25 * row) + biases[0][i])
        held = (inner / between[i]).clamp(-240, 240).to(fp8).double() * between[i]
        return 2.0 * w3[i].double().t() @ held + biases[1][i]

    def scale(values):
        return values if as_numbers else [torch.tensor(value) for value in values]

    operator = getattr(ops.mixture_of_experts, "bias_fp8_fused_weights" + ("_scalars" if as_numbers else ""))
    y = native(
        operator,
        hidden_states=x,
        expert_routing_table=routing,
        router_weights=weights,
        w12=w12,
        w3=w3,
        w12_bias=biases[0],
        w3_bias=biases[1],
        d_scale_hidden_states=scale([0.25])[0],
        d_scale_intermediate_hidden_states=scale(between),
        d_scale_w12=scale([0.5] * 4),
        d_scale_w3=scale([2.0] * 4),
        permuted_weights=False,
        experts_min=2,
        experts_max=5,
    )
    assert y.dtype is torch.bfloat16
    torch.testing.assert_close(y.double(), mixture(x, routing, weights, expert), rtol=2e-2, atol=5e-2)


@pytest.mark.parametrize("with_bias", [False, True])
def test_mxfp4(everywhere, with_bias):
    x, routing, weights = inputs()
    first, second = ([packed(*shape) for _ in range(EXPERTS)] for shape in ((2 * INNER, HIDDEN), (HIDDEN, INNER)))
    biases = [[torch.randn(n) for _ in range(EXPERTS)] for n in (2 * INNER, HIDDEN)]

    def expert(i, row):
        between = first[i][2] @ row
        if with_bias:
            return second[i][2] @ gpt_oss(between + biases[0][i]) + biases[1][i]
        gate, up = between.chunk(2)
        return second[i][2] @ (torch.nn.functional.silu(gate) * up)

    options = {
        "block_size": 32,
        "permuted_weights": True,
        "experts_min": 2,
        "experts_max": 5,
        "is_fp4": True,
        "chunk_size": 64,
        "total_experts": 4,
    }
    matrices, scales = ([[part[j] for part in parts] for parts in (first, second)] for j in (0, 1))
    given = (x, routing, weights, *matrices)
    operator = ops.mixture_of_experts
    if with_bias:
        options |= {"alpha": 1.702, "limit": 7.0}
        y = everywhere(operator.bias_mxfp4_fused_weights, *given, *biases, *scales, **options)
    else:
        y = everywhere(operator.mxfp4_fused_weights, *given, *scales, activation="silu", **options)
    torch.testing.assert_close(y.double(), mixture(x, routing, weights, expert), rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("scales", ["channels", "tensors", "numbers"])
def test_fp8_with_scales_of_each_token(native, scales):
    fp8 = torch.float8_e4m3fn
    x, routing, weights = inputs(torch.bfloat16)
    scale = (x.float().abs().amax(-1, keepdim=True) + 1e-8) / 240
    if scales == "numbers":
        scale = scale.amax()
    x = (x.float() / scale).to(fp8)
    w12 = [torch.randn(2 * INNER, HIDDEN).to(fp8) for _ in range(EXPERTS)]
    w3 = [torch.randn(HIDDEN, INNER).to(fp8) for _ in range(EXPERTS)]
    s12, s3 = (
        [torch.rand(n if scales == "channels" else 1) + 0.5 for _ in range(EXPERTS)] for n in (2 * INNER, HIDDEN)
    )

    def expert(i, row):
        gate, up = ((w12[i].double() * s12[i].double().unsqueeze(-1)) @ row).chunk(2)
        inner = torch.nn.functional.silu(gate) * up
        own = (inner.abs().max() + 1e-8) / 240
        return (w3[i].double() * s3[i].double().unsqueeze(-1)) @ ((inner / own).to(fp8).double() * own)

    expected = mixture(x.double() * scale.double(), routing, weights, expert)
    numbers = scales == "numbers"
    y = native(
        ops.mixture_of_experts,
        hidden_states=x,
        expert_routing_table=routing,
        router_weights=weights,
        w12=w12,
        w3=w3,
        d_scale_hidden_states=scale.item() if numbers else scale,
        d_scale_w12=[each.item() for each in s12] if numbers else s12,
        d_scale_w3=[each.item() for each in s3] if numbers else s3,
        permuted_weights=True,
        activation="silu",
        experts_min=2,
        experts_max=5,
    )
    assert y.dtype is torch.bfloat16
    assert (y.double() - expected).abs().max() < 0.01 * expected.abs().max()
