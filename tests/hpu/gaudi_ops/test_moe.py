"""Mixtures of experts, against a loop over tokens in float64."""

import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map

from tests.hpu.support import close, mixture, wide

ops = torch.ops.hpu
ACTIVATIONS = {"silu": torch.nn.functional.silu, "gelu": torch.nn.functional.gelu, "relu": torch.relu}


def inputs(permuted=False):
    x, routing, weights = torch.randn(6, 8), torch.randint(0, 4, (6, 2)), torch.rand(6, 2)
    shapes = [(8, 5), (8, 5), (5, 8)]
    return x, routing, weights, [[torch.randn(s[::-1] if permuted else s) for _ in range(4)] for s in shapes]


def formula(x, routing, weights, experts, permuted, activation, first=0):
    """The mixture, and of each expert the largest value that enters its third weight, over all tokens."""
    w1, w2, w3 = ([w.double().t() if permuted else w.double() for w in ws] for ws in experts)

    def inner(i, rows):
        return ACTIVATIONS[activation](rows @ w1[i]) * (rows @ w2[i])

    def expert(i, row):
        return inner(i, row) @ w3[i] if 0 <= i < len(w1) else 0.0

    largest = [inner(i, x.double()).max() for i in range(len(w1))]
    return mixture(x, routing, weights, expert, first), torch.stack(largest)


def matrices(experts, permuted, fused):
    """The operator's lists of weights: the first two are one where they are fused."""
    if not fused:
        return experts
    return [torch.cat(pair, 0 if permuted else 1) for pair in zip(*experts[:2], strict=True)], experts[2]


def test_what_an_expert_makes_of_others_tokens_does_not_count(native):
    x, routing, weights, experts = inputs()
    routing = torch.tensor([[0, 0]] * 3 + [[1, 0]] * 3)
    experts[2][1].fill_(torch.inf)
    y = native(ops.mixture_of_experts, x, routing, weights, *experts, False, "relu", 0, 3)
    close(y[:3], formula(x, routing, weights, experts, False, "relu")[0][:3], 1e-4, 1e-4)
    assert not y[3:].isfinite().all()


def test_fused_weights_and_a_part_of_the_experts(everywhere):
    x, routing, weights, experts = inputs(permuted=True)
    half = [ws[1:3] for ws in experts]
    y = everywhere(ops.mixture_of_experts, x, routing, weights, *matrices(half, True, True), True, "silu", 1, 2)
    close(y, formula(x, routing, weights, half, True, "silu", 1)[0], 1e-4, 1e-4)


@pytest.mark.parametrize("fused", [False, True])
def test_measurements(native, everywhere, fused):
    x, routing, weights, experts = inputs()
    routing = torch.tensor([[0, 2]] * 6)  # the second and the fourth expert get no token
    given = (x, routing, weights, *matrices(experts, False, fused))
    run = everywhere if fused else native
    found = run(ops.mixture_of_experts, *given, False, "silu", 0, 3, True)
    close(found, formula(x, routing, weights, experts, False, "silu"), 1e-4, 1e-4)


def test_a_measurement_is_no_absolute_value_and_zero_without_tokens_or_without_measuring(native):
    x, routing, weights, experts = inputs()
    experts[1] = [-w.abs() for w in experts[1]]
    x = x.abs()
    experts[0] = [w.abs() for w in experts[0]]  # so that all products are negative
    for rows, measuring in ((6, True), (0, True), (6, False)):
        given = (x[:rows], routing[:rows], weights[:rows], *experts)
        largest = native(ops.mixture_of_experts, *given, False, "relu", 0, 3, measuring)[1]
        assert (largest < 0).all() if rows and measuring else largest.tolist() == [0.0] * 4


def test_gradients_reach_inputs_and_weights():
    x, routing, weights, experts = inputs()
    mine = tree_map(lambda t: t.to("hpu").requires_grad_(), [x, weights, experts])
    theirs = wide([x, weights, experts])
    y = ops.mixture_of_experts(mine[0], routing.to("hpu"), mine[1], *mine[2], False, "silu", 0, 3)
    y.square().sum().backward()
    formula(theirs[0], routing, theirs[1], theirs[2], False, "silu")[0].square().sum().backward()
    for ours, reference in zip(tree_leaves(mine), tree_leaves(theirs), strict=True):
        close(ours.grad, torch.zeros_like(reference) if reference.grad is None else reference.grad, 1e-3, 1e-3)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("as_numbers", [False, True])
def test_fp8(native, fused, as_numbers):
    fp8 = torch.float8_e4m3fn
    x, routing, weights, experts = inputs()
    x = x.to(fp8)
    experts = [[w.to(fp8) for w in ws] for ws in experts]
    between = [0.05, 0.1, 0.02, 0.04]
    w1, w2, w3 = ([w.double() * f for w in ws] for ws, f in zip(experts, (0.5, 0.5, 2.0), strict=True))

    def expert(i, row):
        inner = torch.nn.functional.silu(row * 0.25 @ w1[i]) * (row * 0.25 @ w2[i])
        return (inner / between[i]).clamp(-240, 240).to(fp8).double() * between[i] @ w3[i]

    def scale(values):
        return values if as_numbers else [torch.tensor(value) for value in values]

    scales = [scale([f] * 4) for f in ((0.5, 2.0) if fused else (0.5, 0.5, 2.0))]
    name = ("fp8_fused_weights" if fused else "fp8") + ("_scalars" if as_numbers else "")
    given = (x, routing, weights, *matrices(experts, False, fused), scale([0.25])[0], scale(between), *scales)
    options = (False, "silu", 0, 3)
    y = native(getattr(ops.mixture_of_experts, name), *given, *options, chunk_size=64, total_experts=4)
    assert y.dtype is torch.bfloat16
    close(y, mixture(x, routing, weights, expert), 2e-2, 2e-2)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("permuted", [False, True])
@pytest.mark.parametrize("activation", ["silu", "gelu", "relu"])
@pytest.mark.parametrize(("dtype", "near"), [(torch.bfloat16, 1e-2), (torch.float16, 2e-3), (torch.float32, 1e-5)])
@pytest.mark.parametrize("tokens", [1, 32])
def test_eight_experts_of_width_224(native, tokens, dtype, near, activation, permuted, fused):
    x = torch.randn(tokens, 64).to(dtype)
    weights, routing = torch.softmax(torch.randn(tokens, 8), -1).topk(2, -1)
    weights = weights.to(dtype)
    shapes = [(64, 224), (64, 224), (224, 64)]
    experts = [[(torch.randn(s[::-1] if permuted else s) / s[0] ** 0.5).to(dtype) for _ in range(8)] for s in shapes]
    given = (x, routing, weights, *matrices(experts, permuted, fused))
    y = native(ops.mixture_of_experts, *given, permuted, activation, 0, 7)
    assert y.dtype is dtype
    close(y, formula(x, routing, weights, experts, permuted, activation)[0], near, near)
