"""Mixtures of experts with biases and the activation of gpt-oss: weights in MXFP4, or fp8 with a scale per token."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from openhpu.interface.gaudi_ops import moe, operators
from openhpu.interface.gaudi_ops.errors import check, check_dims, check_same_length, expect
from openhpu.interface.gaudi_ops.fp8 import E4M3, largest, quantize, scaled

# The meaning of four bits: a sign, two bits of exponent, one of mantissa.
_FP4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_EXPONENT_BIAS = 127


def swiglu_oai(pairs: Tensor, alpha: float, limit: float) -> Tensor:
    """g * sigmoid(alpha * g) * (u + 1) in float32, of pairs (g, u) that lie beside each other: [..., 2 F] to [..., F].

    g is at most `limit`, u lies between -limit and limit. Source: gpt-oss' experts.
    """
    gate = pairs[..., ::2].float().clamp(max=limit)
    up = pairs[..., 1::2].float().clamp(-limit, limit)
    return gate * torch.sigmoid(alpha * gate) * (up + 1.0)


def from_mxfp4(name: str, argument: str, packed: Tensor, scale: Tensor, block_size: int, dtype: torch.dtype) -> Tensor:
    """[out, in] in `dtype`, of uint8 [out, in / 2], two numbers a byte, the lower four bits first.

    `scale`: uint8 [out, in / block_size], the exponent of each block plus 127. Source: OCP Microscaling Formats, 1.0.
    """
    check_dims(name, argument, packed, 2)
    check(packed.dtype is torch.uint8, name, argument, packed, "a uint8 tensor, two numbers a byte")
    check(block_size > 0 and block_size % 2 == 0, name, "block_size", block_size, "an even number, 32 for MXFP4")
    rows, columns = packed.shape[0], 2 * packed.shape[1]
    blocks = -(-columns // block_size)
    fits = scale.dtype is torch.uint8 and list(scale.shape) == [rows, blocks]
    expected = f"a uint8 tensor of shape {[rows, blocks]}: one exponent for {block_size} numbers of {argument}"
    check(fits, name, f"d_scale_{argument}", scale, expected)
    table = torch.tensor([*_FP4, *(-x for x in _FP4)], dtype=torch.float32, device=packed.device)
    values = table[torch.stack((packed & 15, packed >> 4), -1).flatten(1).to(torch.int32)]
    exponents = (scale.to(torch.int32) - _EXPONENT_BIAS).repeat_interleave(block_size, 1)[:, :columns]
    return torch.ldexp(values, exponents).to(dtype)


Weights = Callable[[int], tuple[Tensor, Tensor]]  # w12 and w3 of an expert
Between = Callable[[int, Tensor], Tensor]  # of an expert and its first product: the input of w3


def _mixed(
    given: moe.Routing,
    count: int,
    weights: Weights,
    inner: Between,
    permuted: bool,
    w3_bias: Sequence[Tensor] | None = None,
) -> Tensor:
    """The mixture of `count` experts."""
    x = given.hidden_states

    def expert(i: int) -> Tensor:
        w12, w3 = weights(i)
        out = moe.product(inner(i, moe.product(x, w12, permuted)).to(x.dtype), w3, permuted)
        return out if w3_bias is None else out + w3_bias[i]

    return moe.mix(given, count, expert).to(x.dtype)


Biased = (
    operators.MixtureOfExpertsBias
    | operators.MixtureOfExpertsBiasMeasurement
    | operators.MixtureOfExpertsBiasFp8
    | operators.MixtureOfExpertsBiasMxfp4
)


def _biased_swiglu(a: Biased) -> Between:
    check_same_length(a.operator, w12=a.w12, w3=a.w3, w12_bias=a.w12_bias, w3_bias=a.w3_bias)
    biases, alpha, limit = a.w12_bias, a.alpha, a.limit
    return lambda i, pairs: swiglu_oai(pairs + biases[i], alpha, limit)


def mixture_of_experts_bias(a: operators.MixtureOfExpertsBias) -> Tensor:
    """`mixture_of_experts.fused_weights` with biases and gpt-oss' activation.

    Of each token the sum over its experts of router_weight * (swiglu(x @ w12 + w12_bias) @ w3 + w3_bias). w12: [H, 2 F]
    or [2 F, H] if permuted; along 2 F a gate and the number that it is multiplied by lie beside each other, as in
    gpt-oss' checkpoints. w12_bias: [2 F]; w3_bias: [H]. Source: vLLM's call of its gpt-oss; `swiglu_oai`.
    """
    between = _biased_swiglu(a)
    return _mixed(moe.routing_of(a), len(a.w12), lambda i: (a.w12[i], a.w3[i]), between, a.permuted_weights, a.w3_bias)


def mixture_of_experts_bias_measurement(a: operators.MixtureOfExpertsBiasMeasurement) -> tuple[Tensor, Tensor]:
    """`mixture_of_experts.bias_fused_weights`, and of each expert the largest value that enters w3, [experts].

    Raises RuntimeError with `measure_per_token`. Source: Neural Compressor's call.
    """
    expected = "False: there is no public description of a measurement of each token"
    expect(a, "measure_per_token", not a.measure_per_token, expected)
    between = _biased_swiglu(a)
    maxima: list[Tensor] = []

    def inner(i: int, pairs: Tensor) -> Tensor:
        held = between(i, pairs)
        maxima.append(moe.largest(held))
        return held

    weights: Weights = lambda i: (a.w12[i], a.w3[i])  # noqa: E731
    out = _mixed(moe.routing_of(a), len(a.w12), weights, inner, a.permuted_weights, a.w3_bias)
    return out, torch.stack(maxima)


def mixture_of_experts_bias_fp8(a: operators.MixtureOfExpertsBiasFp8) -> Tensor:
    """`mixture_of_experts.fp8_fused_weights` with biases and gpt-oss' activation, as in `bias_fused_weights`.

    Biases count after the scales. The result is in bfloat16. Source: Neural Compressor's call.
    """
    name, permuted, scales = a.operator, a.permuted_weights, a.d_scale_intermediate_hidden_states
    between = _biased_swiglu(a)
    moe.check_scales(
        name,
        len(a.w12),
        d_scale_intermediate_hidden_states=scales,
        d_scale_w12=a.d_scale_w12,
        d_scale_w3=a.d_scale_w3,
    )
    x = scaled(a.hidden_states, a.d_scale_hidden_states, None, name)

    def expert(i: int) -> Tensor:
        inner = between(i, moe.scaled_product(x, a.w12[i], a.d_scale_w12[i], permuted))
        return moe.last_product(name, inner, scales[i], a.w3[i], a.d_scale_w3[i], permuted) + a.w3_bias[i]

    return moe.mix(moe.routing_of(a), len(a.w12), expert).to(torch.bfloat16)


def _unpacked(a: operators.MixtureOfExpertsMxfp4 | operators.MixtureOfExpertsBiasMxfp4) -> Weights:
    """The MXFP4 weights of an expert."""
    name, dtype, size = a.operator, a.hidden_states.dtype, a.block_size
    w12, w3, d_scale_w12, d_scale_w3 = a.w12, a.w3, a.d_scale_w12, a.d_scale_w3
    expect(a, "permuted_weights", a.permuted_weights, "True: numbers are packed along a weight's inputs")
    expect(a, "is_fp4", a.is_fp4, "True: weights are MXFP4")
    check_same_length(name, w12=w12, w3=w3, d_scale_w12=d_scale_w12, d_scale_w3=d_scale_w3)
    return lambda i: (
        from_mxfp4(name, "w12", w12[i], d_scale_w12[i], size, dtype),
        from_mxfp4(name, "w3", w3[i], d_scale_w3[i], size, dtype),
    )


def mixture_of_experts_mxfp4(a: operators.MixtureOfExpertsMxfp4) -> Tensor:
    """`mixture_of_experts.fused_weights` on MXFP4 weights: w12 uint8 [2 F, H / 2], w3 uint8 [H, F / 2].

    d_scale_w12, d_scale_w3: uint8 [rows, columns / block_size]. Weights take the dtype of hidden_states before they are
    multiplied. Raises RuntimeError for others, and unless `permuted_weights`. Source: vLLM's call; `from_mxfp4`.
    """
    weights, function = _unpacked(a), moe.activation_of(a.operator, a.activation)

    def inner(i: int, halves: Tensor) -> Tensor:
        gate, up = halves.chunk(2, -1)
        return function(gate) * up

    return _mixed(moe.routing_of(a), len(a.w12), weights, inner, a.permuted_weights)


def mixture_of_experts_bias_mxfp4(a: operators.MixtureOfExpertsBiasMxfp4) -> Tensor:
    """`mixture_of_experts.bias_fused_weights` on MXFP4 weights, shaped as those of `mxfp4_fused_weights`."""
    weights = _unpacked(a)
    return _mixed(moe.routing_of(a), len(a.w12), weights, _biased_swiglu(a), a.permuted_weights, a.w3_bias)


def mixture_of_experts_fp8_dynamic(a: operators.MixtureOfExpertsFp8Dynamic) -> Tensor:
    """`mixture_of_experts.fp8_fused_weights` whose scale before w3 is each token's own: its largest number / fp8's.

    d_scale_hidden_states: one number, or [tokens, 1]. The result is in bfloat16. Source: vLLM's call, and how it scales
    the tokens that it passes.
    """
    name, permuted = a.operator, a.permuted_weights
    check_same_length(name, w12=a.w12, w3=a.w3)
    moe.check_scales(name, len(a.w12), d_scale_w12=a.d_scale_w12, d_scale_w3=a.d_scale_w3)
    function = moe.activation_of(name, a.activation)
    x = scaled(a.hidden_states, a.d_scale_hidden_states, None, name)

    def expert(i: int) -> Tensor:
        gate, up = moe.scaled_product(x, a.w12[i], a.d_scale_w12[i], permuted).chunk(2, -1)
        inner = function(gate) * up
        scale = (inner.abs().amax(-1, keepdim=True) + 1e-8) / largest(E4M3)
        held = scaled(quantize(inner / scale, E4M3), scale, None, name)
        return moe.scaled_product(held, a.w3[i], a.d_scale_w3[i], permuted)

    return moe.mix(moe.routing_of(a), len(a.w12), expert).to(torch.bfloat16)
