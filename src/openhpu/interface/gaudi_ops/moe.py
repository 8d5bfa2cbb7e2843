"""Mixtures of experts.

Each expert works on all tokens. A token counts with its router weight, which is 0 if it was not sent to the expert. So
shapes depend on no value, the operator never waits for the device, and it can be part of a graph.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from openhpu.interface.gaudi_ops.errors import check, check_dims, check_same_length, expect
from openhpu.interface.gaudi_ops.fp8 import E4M3, quantize, scaled, widened
from openhpu.interface.gaudi_ops.registry import Arguments

_ACTIVATIONS = ("silu", "gelu", "relu")


def activation_of(a: Arguments) -> Callable[[Tensor], Tensor]:
    """The function that `activation` names. Raises RuntimeError for another name."""
    expect(a, "activation", a.activation in _ACTIVATIONS, f"one of {', '.join(_ACTIVATIONS)}")
    return getattr(torch.nn.functional, a.activation)  # type: ignore[no-any-return]


def product(x: Tensor, weight: Tensor, permuted: bool) -> Tensor:
    """x times a weight of [in, out], or of [out, in] if `permuted`."""
    return torch.matmul(x, weight.transpose(-1, -2) if permuted else weight)


def mix(a: Arguments, count: int, expert: Callable[[int], Tensor]) -> Tensor:
    """The sum over the experts of a token, each result times its router weight, added in float32.

    hidden_states: [tokens, H]; routing, router_weights: [tokens, experts of a token]; `expert(i)`: what the i-th of
    `count` experts, number experts_min + i, makes of all tokens.
    """
    routing, hidden_states = a.expert_routing_table, a.hidden_states
    check_dims(a.operator, "hidden_states", hidden_states, 2)
    alike = routing.shape == a.router_weights.shape and routing.dim() == 2
    expect(a, "router_weights", alike, f"a tensor of shape {list(routing.shape)}, as expert_routing_table")
    expect(a, "expert_routing_table", not routing.is_floating_point(), "an integer tensor [tokens, k]")
    tokens, last = hidden_states.shape[0], a.experts_min + count - 1
    expect(a, "expert_routing_table", routing.shape[0] == tokens, f"{tokens} rows, one for each token")
    numbers = f"{last}: weights of {count} experts are given, the first is number {a.experts_min}"
    expect(a, "experts_max", a.experts_max == last, numbers)
    weights = a.router_weights.float()
    total = torch.zeros(hidden_states.shape, dtype=torch.float32, device=hidden_states.device)
    for i in range(count):
        sent = routing == a.experts_min + i
        share = torch.where(sent, weights, 0.0).sum(-1, keepdim=True)
        # Not times 0: an expert's result for another's token may be infinite.
        total = total + torch.where(sent.any(-1, keepdim=True), expert(i).float() * share, 0.0)
    return total


def separate(a: Arguments) -> None:
    """Take fused weights apart: w12 of [H, 2 F], or [2 F, H] if permuted, into w1 and w2."""
    if not hasattr(a, "w12"):
        return
    axis = 0 if a.permuted_weights else 1
    for i, weight in enumerate(a.w12):
        fits = weight.dim() == 2 and weight.shape[axis] % 2 == 0
        expected = f"[{'2 F, H' if a.permuted_weights else 'H, 2 F'}], two halves of equal width"
        check(fits, a.operator, f"w12[{i}]", weight, expected)
    pairs = [weight.chunk(2, axis) for weight in a.w12]
    a.w1, a.w2 = [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def check_scales(a: Arguments, count: int, *names: str) -> None:
    """Raise RuntimeError unless each of these arguments has a scale for each expert."""
    for name in names:
        expect(a, name, len(getattr(a, name)) == count, f"{count} scales, one for each expert")


def mixture_of_experts(a: Arguments) -> Tensor:
    """Of each token the sum over its experts of router_weight * (activation(x @ w1) * (x @ w2)) @ w3.

    hidden_states: [tokens, H]; expert_routing_table: integers [tokens, k], numbers of experts; router_weights: the same
    shape; w1, w2: of each expert [H, F], w3: [F, H], all transposed if `permuted_weights`; or w12, whose halves are w1
    and w2: [H, 2 F], or [2 F, H]. Experts have the numbers experts_min to experts_max; others' tokens get nothing. The
    result has the shape and dtype of hidden_states. `chunk_size` and `total_experts` change no number.
    Raises RuntimeError for lists and shapes that do not fit. Source: the operator's schema.
    """
    return mixture_of_experts_measurement(a)[0]


def _check_weights(a: Arguments) -> None:
    fits = a.hidden_states.is_floating_point() and a.hidden_states.dim() == 2
    expect(a, "hidden_states", fits, "a floating-point tensor [tokens, H]")
    wide, dtype = a.hidden_states.shape[1], a.hidden_states.dtype
    axis = 0 if a.permuted_weights else -1
    for i, weights in enumerate(zip(a.w1, a.w2, a.w3, strict=True)):
        inner = weights[0].shape[axis] if weights[0].dim() == 2 else -1
        shapes = [wide, inner], [wide, inner], [inner, wide]
        for argument, weight, shape in zip(("w1", "w2", "w3"), weights, shapes, strict=True):
            shape = shape[::-1] if a.permuted_weights else shape
            fits = list(weight.shape) == shape and weight.dtype is dtype
            expected = f"{shape if inner >= 0 else 'two dimensions'} in {dtype}, which hidden_states have"
            check(fits, a.operator, f"{argument}[{i}]", weight, expected)


def largest(inner: Tensor) -> Tensor:
    """The largest value of what enters an expert's w3, over all tokens, in float32; 0 without tokens."""
    return inner.amax().float() if inner.numel() else torch.zeros((), dtype=torch.float32, device=inner.device)


def mixture_of_experts_measurement(a: Arguments) -> tuple[Tensor, Tensor]:
    """`mixture_of_experts`, and of each expert the largest value that enters w3, [experts]; 0 unless measuring.

    It is the largest over all tokens, whether or not the router sent them to the expert, and no absolute value.
    """
    separate(a)
    check_same_length(a, "w1", "w2", "w3")
    function = activation_of(a)
    _check_weights(a)
    x, permuted = a.hidden_states, a.permuted_weights
    maxima: list[Tensor] = []

    def expert(i: int) -> Tensor:
        # Between the products in float32, as recipes compute it.
        gate, up = (product(x, weights[i], permuted).float() for weights in (a.w1, a.w2))
        inner = (function(gate) * up).to(x.dtype)
        if getattr(a, "measurement_mode", False):
            maxima.append(largest(inner))
        return product(inner, a.w3[i], permuted)

    total = mix(a, len(a.w1), expert)
    amax = torch.stack(maxima) if maxima else torch.zeros(len(a.w1), dtype=torch.float32, device=x.device)
    return total.to(x.dtype), amax


def mixture_of_experts_fp8(a: Arguments) -> Tensor:
    """`mixture_of_experts` on fp8: each operand times its d_scale, the input of w3 rounded to fp8 with its own.

    Scales of the inputs hold one number, those of weights one or one for each column of the result. The result is in
    bfloat16. Source: Neural Compressor's call.
    """
    permuted = a.permuted_weights
    if hasattr(a, "w12"):
        parts = [
            scale.reshape(-1).chunk(2) if isinstance(scale, Tensor) and scale.numel() > 1 else (scale, scale)
            for scale in a.d_scale_w12
        ]
        a.d_scale_w1, a.d_scale_w2 = [part[0] for part in parts], [part[1] for part in parts]
    separate(a)
    check_same_length(a, "w1", "w2", "w3")
    check_scales(a, len(a.w1), "d_scale_intermediate_hidden_states", "d_scale_w1", "d_scale_w2", "d_scale_w3")
    function = activation_of(a)
    x = scaled(a.hidden_states, a.d_scale_hidden_states, None, a.operator)

    def expert(i: int) -> Tensor:
        gate = scaled_product(x, a.w1[i], a.d_scale_w1[i], permuted)
        inner = function(gate) * scaled_product(x, a.w2[i], a.d_scale_w2[i], permuted)
        return last_product(a, i, inner)

    return mix(a, len(a.w1), expert).to(torch.bfloat16)


def last_product(a: Arguments, i: int, inner: Tensor) -> Tensor:
    """`inner`, rounded to fp8 with its d_scale, times w3 of the i-th expert."""
    between = a.d_scale_intermediate_hidden_states[i]
    held = quantize(scaled(inner, 1.0 / between, None, a.operator), E4M3)
    return scaled_product(scaled(held, between, None, a.operator), a.w3[i], a.d_scale_w3[i], a.permuted_weights)


def scaled_product(x: Tensor, weight: Tensor, scale: Tensor | float, permuted: bool) -> Tensor:
    """`product` in float32, each column of the result times its scale."""
    out = product(x, widened(weight), permuted)
    return out * (scale.reshape(-1).float() if isinstance(scale, Tensor) else scale)
