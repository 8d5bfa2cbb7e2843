"""Mixtures of experts, against a loop over tokens in float64."""

import pytest
import torch

from tests.hpu.support import mixture

ops = torch.ops.hpu
ACTIVATIONS = {"silu": torch.nn.functional.silu, "gelu": torch.nn.functional.gelu, "relu": torch.relu}


def inputs(first=0, permuted=False):
    x = torch.randn(6, 8)
    routing = torch.randint(0, 4, (6, 2)) + first
    weights = torch.rand(6, 2)
    shapes = [(8, 5), (8, 5), (5, 8)]
    experts = [[torch.randn(s[::-1] if permuted else s) for _ in range(4)] for s in shapes]
    return x, routing, weights, experts


def formula(x, routing, weights, experts, permuted, activation, first=0):
    """The mixture, and of each expert the largest absolute value before its third weight."""
    w1, w2, w3 = ([w.double().t() if permuted else w.double() for w in ws] for ws in experts)
    amax = torch.zeros(len(w1), dtype=torch.float64)

    def expert(i, row):
        if not 0 <= i < len(w1):
            return 0.0
        inner = ACTIVATIONS[activation](row @ w1[i]) * (row @ w2[i])
        amax[i] = max(amax[i], inner.abs().max())
        return inner @ w3[i]

    return mixture(x, routing, weights, expert, first), amax


def together(experts, permuted):
    return [torch.cat(pair, 0 if permuted else 1) for pair in zip(*experts[:2], strict=True)]


def test_what_an_expert_makes_of_others_tokens_does_not_count(native):
    x, routing, weights, experts = inputs()
    routing = torch.tensor([[0, 0]] * 3 + [[1, 0]] * 3)
    experts[2][1].fill_(torch.inf)
    y = native(
        lambda x, r, w, *e: ops.mixture_of_experts(x, r, w, *e, False, "relu", 0, 3), x, routing, weights, *experts
    )
    expected = formula(x, routing, weights, experts, False, "relu")[0]
    torch.testing.assert_close(y[:3].double(), expected[:3], rtol=1e-4, atol=1e-4)
    assert not y[3:].isfinite().all()


def test_fused_weights_and_a_part_of_the_experts(everywhere):
    x, routing, weights, experts = inputs(0, True)
    half = [ws[1:3] for ws in experts]

    def work(x, r, w, w12, w3):
        return ops.mixture_of_experts(x, r, w, w12, w3, True, "silu", 1, 2)

    y = everywhere(work, x, routing, weights, together(half, True), half[2])
    expected = formula(x, routing, weights, half, True, "silu", 1)[0]
    torch.testing.assert_close(y.double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("fused", [False, True])
def test_measurements(native, fused):
    x, routing, weights, experts = inputs()
    lists = (together(experts, False), experts[2]) if fused else experts

    def work(x, r, w, *e):
        return ops.mixture_of_experts(x, r, w, *e, False, "silu", 0, 3, True)

    y, amax = native(work, x, routing, weights, *lists)
    expected = formula(x, routing, weights, experts, False, "silu")
    torch.testing.assert_close((y.double(), amax.double()), expected, rtol=1e-4, atol=1e-4)


def test_gradients_reach_inputs_and_weights():
    x, routing, weights, experts = inputs()
    mine = [t.to("hpu").requires_grad_() for t in (x, weights)]
    theirs = [t.double().requires_grad_() for t in (x, weights)]
    my_experts = [[w.to("hpu").requires_grad_() for w in ws] for ws in experts]
    their_experts = [[w.double().requires_grad_() for w in ws] for ws in experts]
    y = ops.mixture_of_experts(mine[0], routing.to("hpu"), mine[1], *my_experts, False, "silu", 0, 3)
    y.square().sum().backward()

    def expert(i, row):
        a, b, c = (ws[i] for ws in their_experts)
        return torch.nn.functional.silu(row @ a) * (row @ b) @ c

    mixture(theirs[0], routing, theirs[1], expert).square().sum().backward()
    for ours, reference in zip([*mine, *my_experts[0]], [*theirs, *their_experts[0]], strict=True):
        expected = torch.zeros_like(reference) if reference.grad is None else reference.grad
        torch.testing.assert_close(ours.grad.cpu().double(), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("as_numbers", [False, True])
def test_fp8(native, fused, as_numbers):
    fp8 = torch.float8_e4m3fn
    x, routing, weights, experts = inputs()
    x, experts = x.to(fp8), [[w.to(fp8) for w in ws] for ws in experts]
    between = [0.05, 0.1, 0.02, 0.04]
    w1, w2, w3 = ([w.double() * f for w in ws] for ws, f in zip(experts, (0.5, 0.5, 2.0), strict=True))

    def expert(i, row):
        inner = torch.nn.functional.silu(row * 0.25 @ w1[i]) * (row * 0.25 @ w2[i])
        return (inner / between[i]).clamp(-240, 240).to(fp8).double() * between[i] @ w3[i]

    def scale(values):
        return values if as_numbers else [torch.tensor(value) for value in values]

    scales = [scale([f] * 4) for f in ((0.5, 2.0) if fused else (0.5, 0.5, 2.0))]
    matrices = (together(experts, False), experts[2]) if fused else experts
    name = ("fp8_fused_weights" if fused else "fp8") + ("_scalars" if as_numbers else "")

    def work(x, r, w, matrices, first, between, scales):
        return getattr(ops.mixture_of_experts, name)(
            x, r, w, *matrices, first, between, *scales, False, "silu", 0, 3, chunk_size=64, total_experts=4
        )

    y = native(work, x, routing, weights, matrices, scale([0.25])[0], scale(between), scales)
    assert y.dtype is torch.bfloat16
    torch.testing.assert_close(y.double(), mixture(x, routing, weights, expert), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("permuted", [False, True])
@pytest.mark.parametrize("activation", ["silu", "gelu", "relu"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("tokens", [1, 32])
def test_eight_experts_of_width_224(native, tokens, dtype, activation, permuted, fused):
    x = torch.randn(tokens, 64).to(dtype)
    weights, routing = torch.softmax(torch.randn(tokens, 8), -1).topk(2, -1)
    shapes = [(64, 224), (64, 224), (224, 64)]
    experts = [[(torch.randn(s[::-1] if permuted else s) / s[0] ** 0.5).to(dtype) for _ in range(8)] for s in shapes]
    lists = (together(experts, permuted), experts[2]) if fused else experts
    y = native(
        lambda x, r, w, *e: ops.mixture_of_experts(x, r, w, *e, permuted, activation, 0, 7), x, routing,
        weights.to(dtype), *lists,
    )  # fmt: skip
    expected = formula(x, routing, weights.to(dtype), experts, permuted, activation)[0]
    assert y.dtype is dtype
    tolerance = {torch.bfloat16: 1e-2, torch.float16: 2e-3, torch.float32: 1e-5}[dtype]
    torch.testing.assert_close(y.double(), expected, rtol=tolerance, atol=tolerance)
