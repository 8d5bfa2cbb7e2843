"""Mixtures of experts.

Each expert works on all tokens. A token counts with its router weight, which is 0 if it was not sent to the expert. So
shapes depend on no value, the operator never waits for the device, and it can be part of a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from openhpu.interface.gaudi_ops.errors import check, check_dims, check_same_length
from openhpu.interface.gaudi_ops.fp8 import E4M3, Scale, quantize, scaled, widened
from openhpu.interface.gaudi_ops.registry import operator

Scales = Sequence[Tensor | float]

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": torch.nn.functional.silu,
    "gelu": torch.nn.functional.gelu,
    "relu": torch.relu,
}


def activation_of(name: str, activation: str) -> Callable[[Tensor], Tensor]:
    """The function that `activation` names. Raises RuntimeError for another name."""
    check(activation in _ACTIVATIONS, name, "activation", activation, f"one of {', '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[activation]


def product(x: Tensor, weight: Tensor, permuted: bool) -> Tensor:
    """x times a weight of [in, out], or of [out, in] if `permuted`."""
    return torch.matmul(x, weight.transpose(-1, -2) if permuted else weight)


def mix(
    hidden_states: Tensor, routing: Tensor, router_weights: Tensor, count: int, experts_min: int, experts_max: int,
    expert: Callable[[int], Tensor],
) -> Tensor:  # fmt: skip
    """The sum over the experts of a token, each result times its router weight, added in float32.

    hidden_states: [tokens, H]; routing, router_weights: [tokens, experts of a token]; `expert(i)`: what the i-th of
    `count` experts, number experts_min + i, makes of all tokens.
    """
    name = "mixture_of_experts"
    check_dims(name, "hidden_states", hidden_states, 2)
    check(
        routing.shape == router_weights.shape and routing.dim() == 2, name, "router_weights", router_weights,
        f"a tensor of shape {list(routing.shape)}, as expert_routing_table",
    )  # fmt: skip
    check(not routing.is_floating_point(), name, "expert_routing_table", routing, "an integer tensor [tokens, k]")
    check(
        routing.shape[0] == hidden_states.shape[0], name, "expert_routing_table", routing,
        f"{hidden_states.shape[0]} rows, one for each token",
    )  # fmt: skip
    check(
        count == experts_max - experts_min + 1, name, "experts_max", experts_max,
        f"{experts_min + count - 1}: weights of {count} experts are given, the first is number {experts_min}",
    )  # fmt: skip
    weights = router_weights.float()
    total = torch.zeros(hidden_states.shape, dtype=torch.float32, device=hidden_states.device)
    for i in range(count):
        sent = routing == experts_min + i
        share = torch.where(sent, weights, 0.0).sum(-1, keepdim=True)
        # Not times 0: an expert's result for another's token may be infinite.
        total = total + torch.where(sent.any(-1, keepdim=True), expert(i).float() * share, 0.0)
    return total


def intermediate(x: Tensor, gate: Tensor, up: Tensor, permuted: bool, activation: Callable[[Tensor], Tensor]) -> Tensor:
    """activation(x @ gate) * (x @ up), between the products in float32, as recipes compute it."""
    return (activation(product(x, gate, permuted).float()) * product(x, up, permuted).float()).to(x.dtype)


def halves(w12: Sequence[Tensor], permuted: bool) -> tuple[list[Tensor], list[Tensor]]:
    """Fused weights, taken apart."""
    for i, weight in enumerate(w12):
        fits = weight.dim() == 2 and weight.shape[0 if permuted else 1] % 2 == 0
        expected = f"[{'2 F, H' if permuted else 'H, 2 F'}], two halves of equal width"
        check(fits, "mixture_of_experts", f"w12[{i}]", weight, expected)
    pairs = [weight.chunk(2, 0 if permuted else 1) for weight in w12]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


_INPUTS = "Tensor hidden_states, Tensor expert_routing_table, Tensor router_weights"
_OPTIONS = "bool permuted_weights, str activation, int experts_min, int experts_max"
_HINTS = "*, int chunk_size=0, int total_experts=0"  # of vLLM's calls: how Gaudi's kernel divides its work
_OF = "matmul, silu or gelu or relu, mul, where, sum, add: for each expert"


@operator(
    f"mixture_of_experts({_INPUTS}, Tensor[] w1, Tensor[] w2, Tensor[] w3, {_OPTIONS}, {_HINTS}) -> Tensor", of=_OF,
    autocast=True,
)  # fmt: skip
def mixture_of_experts(
    hidden_states: Tensor, expert_routing_table: Tensor, router_weights: Tensor, w1: list[Tensor], w2: list[Tensor],
    w3: list[Tensor], permuted_weights: bool, activation: str, experts_min: int, experts_max: int, chunk_size: int = 0,
    total_experts: int = 0,
) -> Tensor:  # fmt: skip
    """Of each token the sum over its experts of router_weight * (activation(x @ w1) * (x @ w2)) @ w3.

    hidden_states: [tokens, H]; expert_routing_table: integers [tokens, k], numbers of experts; router_weights: the same
    shape; w1, w2: of each expert [H, F], w3: [F, H], all transposed if `permuted_weights`. Experts have the numbers
    experts_min to experts_max; others' tokens get nothing. The result has the shape and dtype of hidden_states.
    `chunk_size` and `total_experts` change no number.
    Raises RuntimeError for lists and shapes that do not fit. Source: the operator's schema.
    """
    return _measured(
        hidden_states, expert_routing_table, router_weights, w1, w2, w3, permuted_weights, activation, experts_min,
        experts_max,
    )[0]  # fmt: skip


@operator(
    f"mixture_of_experts.fused_weights({_INPUTS}, Tensor[] w12, Tensor[] w3, {_OPTIONS}, {_HINTS}) -> Tensor", of=_OF,
    autocast=True,
)  # fmt: skip
def mixture_of_experts_fused(
    hidden_states: Tensor, expert_routing_table: Tensor, router_weights: Tensor, w12: list[Tensor], w3: list[Tensor],
    permuted_weights: bool, activation: str, experts_min: int, experts_max: int, chunk_size: int = 0,
    total_experts: int = 0,
) -> Tensor:  # fmt: skip
    """`mixture_of_experts` whose w1 and w2 are two halves of one tensor: [H, 2 F], or [2 F, H] if permuted."""
    w1, w2 = halves(w12, permuted_weights)
    return mixture_of_experts(
        hidden_states, expert_routing_table, router_weights, w1, w2, w3, permuted_weights, activation, experts_min,
        experts_max,
    )  # fmt: skip


def _check_weights(
    name: str, hidden_states: Tensor, w1: Sequence[Tensor], w2: Sequence[Tensor], w3: Sequence[Tensor], permuted: bool
) -> None:
    check(
        hidden_states.is_floating_point() and hidden_states.dim() == 2, name, "hidden_states", hidden_states,
        "a floating-point tensor [tokens, H]",
    )  # fmt: skip
    wide = hidden_states.shape[1]
    for i, weights in enumerate(zip(w1, w2, w3, strict=True)):
        inner = weights[0].shape[0 if permuted else -1] if weights[0].dim() == 2 else -1
        for argument, weight, shape in zip(
            ("w1", "w2", "w3"), weights, ([wide, inner], [wide, inner], [inner, wide]), strict=True
        ):
            shape = shape[::-1] if permuted else shape
            check(
                list(weight.shape) == shape and weight.dtype is hidden_states.dtype, name, f"{argument}[{i}]", weight,
                f"{shape if inner >= 0 else 'two dimensions'} in {hidden_states.dtype}, which hidden_states have",
            )  # fmt: skip


def _measured(
    hidden_states: Tensor, routing: Tensor, router_weights: Tensor, w1: Sequence[Tensor], w2: Sequence[Tensor],
    w3: Sequence[Tensor], permuted: bool, activation: str, experts_min: int, experts_max: int, measuring: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The mixture, and of each expert the largest absolute value that its tokens give to w3."""
    name = "mixture_of_experts"
    check_same_length(name, "w1", w1=list(w1), w2=list(w2), w3=list(w3))
    function = activation_of(name, activation)
    _check_weights(name, hidden_states, w1, w2, w3, permuted)
    maxima: list[Tensor] = []

    def expert(i: int) -> Tensor:
        inner = intermediate(hidden_states, w1[i], w2[i], permuted, function)
        if measuring:
            sent = (routing == experts_min + i).any(-1, keepdim=True)
            maxima.append(torch.where(sent, inner.abs(), 0.0).amax().float())
        return product(inner, w3[i], permuted)

    total = mix(hidden_states, routing, router_weights, len(w1), experts_min, experts_max, expert)
    amax = torch.stack(maxima) if maxima else torch.zeros(len(w1), dtype=torch.float32, device=hidden_states.device)
    return total.to(hidden_states.dtype), amax


@operator(
    f"mixture_of_experts.fp8_measurement({_INPUTS}, Tensor[] w1, Tensor[] w2, Tensor[] w3, {_OPTIONS}, "
    "bool measurement_mode) -> (Tensor, Tensor)",
    of=f"{_OF}; abs, amax", autocast=True,
)  # fmt: skip
def mixture_of_experts_measurement(
    hidden_states: Tensor, expert_routing_table: Tensor, router_weights: Tensor, w1: list[Tensor], w2: list[Tensor],
    w3: list[Tensor], permuted_weights: bool, activation: str, experts_min: int, experts_max: int,
    measurement_mode: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`mixture_of_experts`, and of each expert the largest absolute value before w3, [experts]; 0 unless measuring."""
    return _measured(
        hidden_states, expert_routing_table, router_weights, w1, w2, w3, permuted_weights, activation, experts_min,
        experts_max, measurement_mode,
    )  # fmt: skip


@operator(
    f"mixture_of_experts.fp8_measurement_fused_weights({_INPUTS}, Tensor[] w12, Tensor[] w3, {_OPTIONS}, "
    "bool measurement_mode) -> (Tensor, Tensor)",
    of=f"{_OF}; abs, amax", autocast=True,
)  # fmt: skip
def mixture_of_experts_measurement_fused(
    hidden_states: Tensor, expert_routing_table: Tensor, router_weights: Tensor, w12: list[Tensor], w3: list[Tensor],
    permuted_weights: bool, activation: str, experts_min: int, experts_max: int, measurement_mode: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`fp8_measurement` with fused weights."""
    w1, w2 = halves(w12, permuted_weights)
    return _measured(
        hidden_states, expert_routing_table, router_weights, w1, w2, w3, permuted_weights, activation, experts_min,
        experts_max, measurement_mode,
    )  # fmt: skip


_SCALES = "Tensor d_scale_hidden_states, Tensor[] d_scale_intermediate_hidden_states"
_NUMBERS = "float d_scale_hidden_states, float[] d_scale_intermediate_hidden_states"
_THREE = "Tensor[] d_scale_w1, Tensor[] d_scale_w2, Tensor[] d_scale_w3"
_TWO = "Tensor[] d_scale_w12, Tensor[] d_scale_w3"
_FP8_OF = f"to, mul, cast_to_fp8_v2; {_OF}"


@operator(
    f"mixture_of_experts.fp8({_INPUTS}, Tensor[] w1, Tensor[] w2, Tensor[] w3, {_SCALES}, {_THREE}, {_OPTIONS}, "
    f"{_HINTS}) -> Tensor",
    f"mixture_of_experts.fp8_scalars({_INPUTS}, Tensor[] w1, Tensor[] w2, Tensor[] w3, {_NUMBERS}, "
    f"{_THREE.replace('Tensor[]', 'float[]')}, {_OPTIONS}, {_HINTS}) -> Tensor",
    of=_FP8_OF,
)
def mixture_of_experts_fp8(
    hidden_states: Tensor, expert_routing_table: Tensor, router_weights: Tensor, w1: list[Tensor], w2: list[Tensor],
    w3: list[Tensor], d_scale_hidden_states: Scale, d_scale_intermediate_hidden_states: Scales, d_scale_w1: Scales,
    d_scale_w2: Scales, d_scale_w3: Scales, permuted_weights: bool, activation: str, experts_min: int,
    experts_max: int, chunk_size: int = 0, total_experts: int = 0,
) -> Tensor:  # fmt: skip
    """`mixture_of_experts` on fp8: each operand times its d_scale, the input of w3 rounded to fp8 with its own.

    Scales of the inputs hold one number, those of weights one or one for each column of the result. The result is in
    bfloat16. Source: Neural Compressor's call.
    """
    name = "mixture_of_experts"
    lists = {"w1": list(w1), "w2": list(w2), "w3": list(w3)}
    check_same_length(name, "w1", **lists)
    for argument, scales in (
        ("d_scale_intermediate_hidden_states", d_scale_intermediate_hidden_states), ("d_scale_w1", d_scale_w1),
        ("d_scale_w2", d_scale_w2), ("d_scale_w3", d_scale_w3),
    ):  # fmt: skip
        check(len(scales) == len(w1), name, argument, scales, f"{len(w1)} scales, one for each expert")
    function = activation_of(name, activation)
    x = scaled(hidden_states, d_scale_hidden_states, None, name)

    def expert(i: int) -> Tensor:
        gate = scaled_product(x, w1[i], d_scale_w1[i], permuted_weights)
        inner = function(gate) * scaled_product(x, w2[i], d_scale_w2[i], permuted_weights)
        between = d_scale_intermediate_hidden_states[i]
        held = quantize(scaled(inner, 1.0 / between, None, name), E4M3)
        return scaled_product(scaled(held, between, None, name), w3[i], d_scale_w3[i], permuted_weights)

    total = mix(hidden_states, expert_routing_table, router_weights, len(w1), experts_min, experts_max, expert)
    return total.to(torch.bfloat16)


def scaled_product(x: Tensor, weight: Tensor, scale: Tensor | float, permuted: bool) -> Tensor:
    """`product` in float32, each column of the result times its scale."""
    out = product(x, widened(weight), permuted)
    return out * (scale.reshape(-1).float() if isinstance(scale, Tensor) else scale)


@operator(
    f"mixture_of_experts.fp8_fused_weights({_INPUTS}, Tensor[] w12, Tensor[] w3, {_SCALES}, {_TWO}, {_OPTIONS}, "
    f"{_HINTS}) -> Tensor",
    f"mixture_of_experts.fp8_fused_weights_scalars({_INPUTS}, Tensor[] w12, Tensor[] w3, {_NUMBERS}, "
    f"{_TWO.replace('Tensor[]', 'float[]')}, {_OPTIONS}, {_HINTS}) -> Tensor",
    of=_FP8_OF,
)
def mixture_of_experts_fp8_fused(
    hidden_states: Tensor, expert_routing_table: Tensor, router_weights: Tensor, w12: list[Tensor], w3: list[Tensor],
    d_scale_hidden_states: Scale, d_scale_intermediate_hidden_states: Scales, d_scale_w12: Scales, d_scale_w3: Scales,
    permuted_weights: bool, activation: str, experts_min: int, experts_max: int, chunk_size: int = 0,
    total_experts: int = 0,
) -> Tensor:  # fmt: skip
    """`mixture_of_experts.fp8` with fused weights."""
    w1, w2 = halves(w12, permuted_weights)
    parts = [
        scale.reshape(-1).chunk(2) if isinstance(scale, Tensor) and scale.numel() > 1 else (scale, scale)
        for scale in d_scale_w12
    ]
    return mixture_of_experts_fp8(
        hidden_states, expert_routing_table, router_weights, w1, w2, w3, d_scale_hidden_states,
        d_scale_intermediate_hidden_states, [part[0] for part in parts], [part[1] for part in parts], d_scale_w3,
        permuted_weights, activation, experts_min, experts_max,
    )  # fmt: skip
