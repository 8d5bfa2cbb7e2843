"""Mixtures of experts.

Each expert works on all tokens. A token counts with its router weight, which is 0 if it was not sent to the expert. So
shapes depend on no value, the operator never waits for the device, and it can be part of a graph.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from openhpu.interface.gaudi_ops import operators
from openhpu.interface.gaudi_ops.errors import check, check_dims, check_same_length
from openhpu.interface.gaudi_ops.fp8 import E4M3, quantize, scaled, widened

Activation = Callable[[Tensor], Tensor]
Number = Tensor | float
Numbers = Sequence[Tensor] | Sequence[float]
# Every operator of this file and of moe_formats.
Mixture = (
    operators.MixtureOfExperts
    | operators.MixtureOfExpertsMeasurement
    | operators.MixtureOfExpertsFp8
    | operators.MixtureOfExpertsBias
    | operators.MixtureOfExpertsBiasMeasurement
    | operators.MixtureOfExpertsBiasFp8
    | operators.MixtureOfExpertsMxfp4
    | operators.MixtureOfExpertsBiasMxfp4
    | operators.MixtureOfExpertsFp8Dynamic
)
_ACTIVATIONS: dict[str, Activation] = {
    "silu": torch.nn.functional.silu,
    "gelu": torch.nn.functional.gelu,
    "relu": torch.nn.functional.relu,
}


class Routing(NamedTuple):
    """The tokens, [tokens, H], and where they go: the numbers of experts and their weights, [tokens, k]. The experts
    have the numbers `experts_min` to `experts_max`."""

    operator: str
    hidden_states: Tensor
    expert_routing_table: Tensor
    router_weights: Tensor
    experts_min: int
    experts_max: int


def routing_of(a: Mixture) -> Routing:
    """That of an operator."""
    return Routing(
        operator=a.operator,
        hidden_states=a.hidden_states,
        expert_routing_table=a.expert_routing_table,
        router_weights=a.router_weights,
        experts_min=a.experts_min,
        experts_max=a.experts_max,
    )


def activation_of(operator: str, name: str) -> Activation:
    """The function that `activation` names. Raises RuntimeError for another name."""
    check(name in _ACTIVATIONS, operator, "activation", name, f"one of {', '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[name]


def product(x: Tensor, weight: Tensor, permuted: bool) -> Tensor:
    """x times a weight of [in, out], or of [out, in] if `permuted`."""
    return torch.matmul(x, weight.transpose(-1, -2) if permuted else weight)


def mix(given: Routing, count: int, expert: Callable[[int], Tensor]) -> Tensor:
    """The sum over the experts of a token, each result times its router weight, added in float32.

    `expert(i)`: what the i-th of `count` experts, number experts_min + i, makes of all tokens.
    """
    name, hidden_states, routing = given.operator, given.hidden_states, given.expert_routing_table
    check_dims(name, "hidden_states", hidden_states, 2)
    alike = routing.shape == given.router_weights.shape and routing.dim() == 2
    expected = f"a tensor of shape {list(routing.shape)}, as expert_routing_table"
    check(alike, name, "router_weights", given.router_weights, expected)
    whole = not routing.is_floating_point()
    check(whole, name, "expert_routing_table", routing, "an integer tensor [tokens, k]")
    tokens, last = hidden_states.shape[0], given.experts_min + count - 1
    fits = routing.shape[0] == tokens
    check(fits, name, "expert_routing_table", routing, f"{tokens} rows, one for each token")
    numbers = f"{last}: weights of {count} experts are given, the first is number {given.experts_min}"
    check(given.experts_max == last, name, "experts_max", given.experts_max, numbers)
    weights = given.router_weights.float()
    total = torch.zeros(hidden_states.shape, dtype=torch.float32, device=hidden_states.device)
    for i in range(count):
        sent = routing == given.experts_min + i
        share = torch.where(sent, weights, 0.0).sum(-1, keepdim=True)
        # Not times 0: an expert's result for another's token may be infinite.
        total = total + torch.where(sent.any(-1, keepdim=True), expert(i).float() * share, 0.0)
    return total


def _pairs(
    operator: str, w1: list[Tensor] | None, w2: list[Tensor] | None, w12: list[Tensor] | None, permuted: bool
) -> tuple[list[Tensor], list[Tensor]]:
    """w1 and w2, or the halves of fused weights: of [H, 2 F], or [2 F, H] if permuted."""
    if w12 is None:
        return w1 or [], w2 or []
    axis = 0 if permuted else 1
    for i, weight in enumerate(w12):
        fits = weight.dim() == 2 and weight.shape[axis] % 2 == 0
        expected = f"[{'2 F, H' if permuted else 'H, 2 F'}], two halves of equal width"
        check(fits, operator, f"w12[{i}]", weight, expected)
    pairs = [weight.chunk(2, axis) for weight in w12]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def _pairs_of_scales(
    d_scale_w1: Numbers | None, d_scale_w2: Numbers | None, d_scale_w12: Numbers | None
) -> tuple[Numbers, Numbers]:
    """The scales of w1 and w2: a scale of fused weights with a number for each column has two halves."""
    if d_scale_w12 is None:
        return d_scale_w1 or [], d_scale_w2 or []
    parts = [
        scale.reshape(-1).chunk(2) if isinstance(scale, Tensor) and scale.numel() > 1 else (scale, scale)
        for scale in d_scale_w12
    ]
    return [part[0] for part in parts], [part[1] for part in parts]  # type: ignore[return-value]  # all are alike


def check_scales(operator: str, count: int, **scales: Numbers) -> None:
    """Raise RuntimeError unless each of these arguments, by their names, has a scale for each expert."""
    for name, given in scales.items():
        check(len(given) == count, operator, name, given, f"{count} scales, one for each expert")


def mixture_of_experts(a: operators.MixtureOfExperts) -> Tensor:
    """Of each token the sum over its experts of router_weight * (activation(x @ w1) * (x @ w2)) @ w3.

    hidden_states: [tokens, H]; expert_routing_table: integers [tokens, k], numbers of experts; router_weights: the same
    shape; w1, w2: of each expert [H, F], w3: [F, H], all transposed if `permuted_weights`; or w12, whose halves are w1
    and w2: [H, 2 F], or [2 F, H]. Experts have the numbers experts_min to experts_max; others' tokens get nothing. The
    result has the shape and dtype of hidden_states. `chunk_size` and `total_experts` change no number.
    Raises RuntimeError for lists and shapes that do not fit. Source: the operator's schema.
    """
    return _plain_mixture(a, measured=False)[0]


def mixture_of_experts_measurement(a: operators.MixtureOfExpertsMeasurement) -> tuple[Tensor, Tensor]:
    """`mixture_of_experts`, and of each expert the largest value that enters w3, [experts]; 0 unless measuring.

    It is the largest over all tokens, whether or not the router sent them to the expert, and no absolute value.
    """
    return _plain_mixture(a, a.measurement_mode)


def _plain_mixture(
    a: operators.MixtureOfExperts | operators.MixtureOfExpertsMeasurement, measured: bool
) -> tuple[Tensor, Tensor]:
    x, w3, permuted = a.hidden_states, a.w3, a.permuted_weights
    w1, w2 = _pairs(a.operator, a.w1, a.w2, a.w12, permuted)
    check_same_length(a.operator, w1=w1, w2=w2, w3=w3)
    function = activation_of(a.operator, a.activation)
    _check_weights(a.operator, x, w1, w2, w3, permuted)
    maxima: list[Tensor] = []

    def expert(i: int) -> Tensor:
        # Between the products in float32, as recipes compute it.
        gate, up = (product(x, weights[i], permuted).float() for weights in (w1, w2))
        inner = (function(gate) * up).to(x.dtype)
        if measured:
            maxima.append(largest(inner))
        return product(inner, w3[i], permuted)

    total = mix(routing_of(a), len(w1), expert)
    amax = torch.stack(maxima) if maxima else torch.zeros(len(w1), dtype=torch.float32, device=x.device)
    return total.to(x.dtype), amax


def _check_weights(
    operator: str, x: Tensor, w1: list[Tensor], w2: list[Tensor], w3: list[Tensor], permuted: bool
) -> None:
    fits = x.is_floating_point() and x.dim() == 2
    check(fits, operator, "hidden_states", x, "a floating-point tensor [tokens, H]")
    wide, dtype = x.shape[1], x.dtype
    axis = 0 if permuted else -1
    for i, weights in enumerate(zip(w1, w2, w3, strict=True)):
        inner = weights[0].shape[axis] if weights[0].dim() == 2 else -1
        shapes = [wide, inner], [wide, inner], [inner, wide]
        for argument, weight, shape in zip(("w1", "w2", "w3"), weights, shapes, strict=True):
            shape = shape[::-1] if permuted else shape
            fits = list(weight.shape) == shape and weight.dtype is dtype
            expected = f"{shape if inner >= 0 else 'two dimensions'} in {dtype}, which hidden_states have"
            check(fits, operator, f"{argument}[{i}]", weight, expected)


def largest(inner: Tensor) -> Tensor:
    """The largest value of what enters an expert's w3, over all tokens, in float32; 0 without tokens."""
    return inner.amax().float() if inner.numel() else torch.zeros((), dtype=torch.float32, device=inner.device)


def mixture_of_experts_fp8(a: operators.MixtureOfExpertsFp8) -> Tensor:
    """`mixture_of_experts` on fp8: each operand times its d_scale, the input of w3 rounded to fp8 with its own.

    Scales of the inputs hold one number, those of weights one or one for each column of the result. The result is in
    bfloat16. Source: Neural Compressor's call.
    """
    name, permuted, between = a.operator, a.permuted_weights, a.d_scale_intermediate_hidden_states
    first, second = _pairs_of_scales(a.d_scale_w1, a.d_scale_w2, a.d_scale_w12)
    w1, w2 = _pairs(name, a.w1, a.w2, a.w12, permuted)
    check_same_length(name, w1=w1, w2=w2, w3=a.w3)
    check_scales(
        name,
        len(w1),
        d_scale_intermediate_hidden_states=between,
        d_scale_w1=first,
        d_scale_w2=second,
        d_scale_w3=a.d_scale_w3,
    )
    function = activation_of(name, a.activation)
    x = scaled(a.hidden_states, a.d_scale_hidden_states, None, name)

    def expert(i: int) -> Tensor:
        gate = scaled_product(x, w1[i], first[i], permuted)
        inner = function(gate) * scaled_product(x, w2[i], second[i], permuted)
        return last_product(name, inner, between[i], a.w3[i], a.d_scale_w3[i], permuted)

    return mix(routing_of(a), len(w1), expert).to(torch.bfloat16)


def last_product(
    operator: str, inner: Tensor, between: Number, weight: Tensor, scale: Number, permuted: bool
) -> Tensor:
    """`inner`, rounded to fp8 with its d_scale `between`, times w3 of an expert with its scale."""
    held = quantize(scaled(inner, 1.0 / between, None, operator), E4M3)
    return scaled_product(scaled(held, between, None, operator), weight, scale, permuted)


def scaled_product(x: Tensor, weight: Tensor, scale: Number, permuted: bool) -> Tensor:
    """`product` in float32, each column of the result times its scale."""
    out = product(x, widened(weight), permuted)
    return out * (scale.reshape(-1).float() if isinstance(scale, Tensor) else scale)
