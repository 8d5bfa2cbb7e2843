"""Casts to and from 8-bit floating point, matrix products and other operators on fp8 tensors.

A cast to fp8 multiplies by its scale in the dtype of the input, one from fp8 in the dtype of the result: the scale is a
number of that dtype, and the product is rounded to it. A cast to fp8 then clamps to the largest finite number of the
device's format and rounds to the nearest even number, or stochastically. A matrix product is computed in float32 from
the exact values of its operands. A result in bfloat16 is rounded before its scales are applied; the scales are one
number of bfloat16.
"""

import functools
import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch._prims_common import is_expandable_to

from openhpu import settings
from openhpu.interface.gaudi_ops import operators
from openhpu.interface.gaudi_ops.errors import c_name, check, check_dims, expect

Scale = Tensor | float | Sequence[float] | None
Shape = Sequence[int] | None

E5M2, E4M3 = torch.float8_e5m2, torch.float8_e4m3fn
# Bits of the mantissa, exponent of the smallest normal number.
_FORMATS = {E5M2: (2, -14), E4M3: (3, -6)}


@functools.cache
def largest(dtype: torch.dtype) -> float:
    """The largest finite number of `dtype` on the device whose generation is chosen.

    Gaudi 2's e4m3 keeps the uppermost exponent for infinities: 240, where Gaudi 3 has 448. Raises RuntimeError for the
    first Gaudi, which has no fp8.
    """
    generation = settings.get("OPENHPU_GENERATION")
    if generation == "gaudi":
        raise RuntimeError(
            f"{dtype} needs Gaudi 2 or 3, and OPENHPU_GENERATION is gaudi; set it to gaudi2 or gaudi3, or compute in "
            "bfloat16."
        )
    return 240.0 if dtype is E4M3 and generation == "gaudi2" else float(torch.finfo(dtype).max)


def is_fp8(dtype: torch.dtype | None) -> bool:
    """Whether `dtype` is one of the two formats that a Gaudi has."""
    return dtype in _FORMATS


def quantize(x: Tensor, dtype: torch.dtype, stochastic: bool = False) -> Tensor:
    """`x`, of float32 or float64, rounded to fp8: NaN stays NaN, and a number that is too large becomes the largest."""
    limit = largest(dtype)
    x = x.clamp(-limit, limit)
    if stochastic:
        x = _round_stochastically(x, dtype)
    return x.to(dtype)


def _round_stochastically(x: Tensor, dtype: torch.dtype) -> Tensor:
    """`x` at one of the two numbers of `dtype` around it, the nearer the likelier, so that the mean is `x`.

    Both of PT_HPU_STOCHASTIC_ROUNDING_MODE's modes do so down to zero.
    """
    mantissa, smallest = _FORMATS[dtype]
    x = x.float()
    # The exponent's bits alone are the power of two below a number; a step of fp8 is that many mantissa bits smaller.
    power = (x.view(torch.int32) & 0x7F800000).view(torch.float32)
    step = power.clamp_min(2.0**smallest) * 2.0**-mantissa
    return torch.floor(x / step + torch.rand_like(x)) * step


def widened(x: Tensor) -> Tensor:
    """The exact values of `x` in float32, or in float64 if it has that."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def narrowed(x: Tensor, dtype: torch.dtype) -> Tensor:
    """`x`, of float32 or float64, in another dtype, which may be of fp8."""
    return quantize(x, dtype) if is_fp8(dtype) else x.to(dtype)


def scaled(x: Tensor, scale: Scale, shape: Shape, name: str) -> Tensor:
    """`x` in float32, times `scale`, which broadcasts to it after it took `shape`.

    A scale of one dimension that does not is one for each channel, which are the first or the second dimension of `x`.
    """
    x = widened(x)
    if scale is None:
        return x
    if isinstance(scale, float | int):
        return x if scale == 1.0 else x * scale
    factor = _shaped(as_tensor(scale, x), shape, name, "scale_shape")
    if factor.numel() == 1:
        factor = factor.reshape(())
    elif factor.dim() == 1 and not is_expandable_to(factor.shape, x.shape) and factor.numel() in x.shape[:2]:
        axis = list(x.shape).index(factor.numel())
        factor = factor.reshape([-1] + [1] * (x.dim() - 1 - axis))
    else:
        expected = f"a shape that broadcasts to {list(x.shape)}, or one number for each channel"
        check(is_expandable_to(factor.shape, x.shape), name, "scale", factor, expected)
    return x * factor.to(x.dtype)


def _shaped(factor: Tensor, shape: Shape, name: str, argument: str) -> Tensor:
    if shape is None:
        return factor
    check(math.prod(shape) == factor.numel(), name, argument, list(shape), f"a shape of {factor.numel()} numbers")
    return factor.reshape(list(shape))


_SHORT = (torch.bfloat16, torch.float16)


def rounded(scale: Scale, like: Tensor, dtype: torch.dtype = torch.bfloat16) -> Scale:
    """`scale` at the nearest number of `dtype`."""
    if scale is None or (isinstance(scale, float | int) and scale == 1.0):
        return scale
    if isinstance(scale, float | int):
        return torch.full((), scale, dtype=dtype, device=like.device)
    return as_tensor(scale, like).to(dtype)


def scaled_in(x: Tensor, dtype: torch.dtype, scale: Scale, shape: Shape, name: str) -> Tensor:
    """`scaled`, where `dtype` has 16 bits with the scale and the product rounded to it; in float32."""
    if dtype not in _SHORT or scale is None:
        return scaled(x, scale, shape, name)
    return scaled(x, rounded(scale, x, dtype), shape, name).to(dtype).float()


def as_tensor(scale: Tensor | Sequence[float], like: Tensor) -> Tensor:
    """`scale` as a tensor on the device of `like`; a list becomes one dimension."""
    if isinstance(scale, Tensor):
        return scale
    return torch.tensor(list(scale), dtype=torch.float32, device=like.device)


def absolute_maximum(x: Tensor) -> Tensor:
    """max |x| as a 0-dim float32 tensor; 0 of an empty tensor."""
    if x.numel() == 0:
        return torch.zeros((), dtype=torch.float32, device=x.device)
    return x.abs().amax().float()


def maximum_of(x: Tensor, wanted: bool) -> Tensor:
    """max |x|, empty unless it is wanted."""
    return absolute_maximum(x) if wanted else torch.empty(0, dtype=torch.float32, device=x.device)


def _cast(
    x: Tensor, scale: Scale, stochastic: bool, wants_maximum: bool, dtype: torch.dtype | None, shape: Shape = None
) -> tuple[Tensor, Tensor]:
    """`cast_to_fp8_v2`, whose name errors have."""
    name = "cast_to_fp8_v2"
    dtype = dtype or (x.dtype if is_fp8(x.dtype) else E5M2)
    check(is_fp8(dtype), name, "dtype", dtype, "torch.float8_e5m2 or torch.float8_e4m3fn")
    check(x.is_floating_point(), name, "input", x, "a floating-point tensor")
    if is_fp8(x.dtype):
        if wants_maximum:
            raise RuntimeError("CastToFp8V2 must have no amax for float8.")
        if x.dtype is not dtype:
            raise RuntimeError(
                "CastToFp8V2 input and output must have the same dtype for float8, but are "
                f"{c_name(x.dtype)} and {c_name(dtype)}."
            )
    amax = maximum_of(x, wants_maximum)
    return quantize(scaled_in(x, x.dtype, scale, shape, name), dtype, stochastic), amax


def cast_to_fp8_v2(a: operators.CastToFp8V2) -> tuple[Tensor, Tensor]:
    """fp8(input * scale), and max |input|.

    `input`: floating point, any shape. `scale`: a number, a tensor that broadcasts, or [channels], which are then the
    first or the second dimension. Scale and product are rounded to the input's dtype first, as on a Gaudi. `dtype`:
    float8_e5m2 (the default) or float8_e4m3fn.
    The second result is a 0-dim float32 tensor, empty unless `is_amax`. Raises RuntimeError for other dtypes, and for
    an fp8 input with another `dtype` or with `is_amax`. Source: the operator's schema.
    """
    return _cast(a.input, a.scale, a.stochastic_rounding, a.is_amax, a.dtype, a.scale_shape)


def cast_to_fp8(a: operators.CastToFp8) -> tuple[Tensor, Tensor]:
    """`cast_to_fp8_v2` into `out`, an fp8 tensor of the input's shape, and `amax`, which may be empty."""
    expect(a, "out", is_fp8(a.out.dtype), "a float8_e5m2 or float8_e4m3fn tensor")
    expect(a, "out", a.out.shape == a.input.shape, f"a tensor of shape {list(a.input.shape)}, the input's")
    wants_maximum = a.amax.numel() > 0
    result, maximum = _cast(a.input, a.scale, a.stochastic_rounding, wants_maximum, a.out.dtype)
    a.out.copy_(result)
    if wants_maximum:
        a.amax.copy_(maximum)
    return a.out, a.amax


def cast_to_fp8_hybrid(a: operators.CastToFp8Hybrid) -> tuple[Tensor, Tensor, Tensor]:
    """The input in float8_e5m2 and in float8_e4m3fn, each with its scale, and max |input| as `cast_to_fp8_v2`'s."""
    e5m2, amax = _cast(a.input, a.scale_152, a.stochastic_rounding, a.is_amax, E5M2)
    e4m3, _ = _cast(a.input, a.scale_143, a.stochastic_rounding, False, E4M3)
    return e5m2, e4m3, amax


def cast_from_fp8(a: operators.CastFromFp8) -> Tensor:
    """`input * scale` in `out_dtype`, to which the scale is rounded first.

    `input`: an fp8 tensor of any shape; `scale`: as `cast_to_fp8_v2`'s. Raises RuntimeError for other
    dtypes. Source: the operator's schema.
    """
    expect(a, "input", is_fp8(a.input.dtype), "a float8_e5m2 or float8_e4m3fn tensor")
    expect(a, "out_dtype", a.out_dtype.is_floating_point, "a floating-point dtype")
    return narrowed(scaled_in(a.input, a.out_dtype, a.scale, a.scale_shape, a.operator), a.out_dtype)


def fp8_gemm_v2(a: operators.Fp8GemmV2) -> Tensor:
    """op(A) @ op(B) * A_scale_inv * B_scale_inv + bias, plus D if `accumulate`, in `out_dtype`; op may transpose.

    A: [..., M, K], B: [..., K, N] or one that broadcasts to it; either may be one-dimensional, [K], as torch.matmul's
    operands, and is not transposed then. A scale is a number, one for each row of the result (A's M) or each column
    (B's N), or one that broadcasts to the result. The result is computed in float32 and rounded once. With `out_dtype`
    bfloat16 the product, and that of the scales, are rounded to it before they are multiplied, as on a Gaudi. Raises
    RuntimeError for shapes that do not fit. Source: the operator's schema.
    """
    return _gemm(a, a.B_scale_shape)


def _gemm(a: operators.Fp8Gemm | operators.Fp8GemmV2, B_scale_shape: Shape) -> Tensor:
    """`fp8_gemm_v2`, whose name errors have."""
    name = "fp8_gemm_v2"
    A, B, D, bias, dtype = a.A, a.B, a.D, a.bias, a.out_dtype
    left, right = _gemm_operands(a, name)
    out = torch.matmul(widened(left), widened(right).to(widened(left).dtype))
    factor = _result_scale(out, a.A_scale_inv, None, True, name, "A_scale_inv")
    columns = _result_scale(out, a.B_scale_inv, B_scale_shape, False, name, "B_scale_inv")
    if columns is not None:
        factor = columns if factor is None else factor * columns
    if factor is not None and dtype is torch.bfloat16:
        out = scaled(out.to(dtype), rounded(factor, out), None, name)
    elif factor is not None:
        out = out * factor
    out = out.squeeze(-1) if B.dim() == 1 else out
    if A.dim() == 1:
        out = out.squeeze(-1 if B.dim() == 1 else -2)
    if bias is not None:
        fits = is_expandable_to(bias.shape, out.shape)
        check(fits, name, "bias", bias, f"a tensor that broadcasts to {list(out.shape)}")
        out = out + bias
    if a.accumulate:
        fits = D is not None and D.shape == out.shape
        check(fits, name, "D", D, f"a tensor of shape {list(out.shape)} to accumulate")
        assert D is not None
        out = out + D
    return narrowed(out, dtype)


def _gemm_operands(a: operators.Fp8Gemm | operators.Fp8GemmV2, name: str) -> tuple[Tensor, Tensor]:
    """A and B as matrices, transposed as the caller wants it. Raises RuntimeError where they do not fit."""
    A, B, dtype = a.A, a.B, a.out_dtype
    for argument, tensor in (("A", A), ("B", B)):
        check(tensor.dim() >= 1, name, argument, tensor, "one dimension or more")
        check(tensor.is_floating_point(), name, argument, tensor, "a floating-point tensor, usually of fp8")
    check(dtype.is_floating_point, name, "out_dtype", dtype, "a floating-point dtype")
    left = A.transpose(-1, -2) if a.trans_A and A.dim() > 1 else torch.atleast_2d(A)
    right = B.transpose(-1, -2) if a.trans_B and B.dim() > 1 else B
    right = right.unsqueeze(-1) if B.dim() == 1 else right
    check(left.shape[-1] == right.shape[-2], name, "B", B, f"{left.shape[-1]} rows (after trans_B), A's columns")
    batches = (left.shape[:-2], right.shape[:-2])
    fit = all(m == n or 1 in (m, n) for m, n in zip(batches[0][::-1], batches[1][::-1], strict=False))
    check(fit, name, "B", B, f"dimensions before the last two that broadcast with A's, {list(batches[0])}")
    return left, right


def _result_scale(
    out: Tensor, scale: Scale, shape: Shape, rows: bool, name: str, argument: str
) -> Tensor | float | None:
    """An operand's scale as a factor of the result, to which hardware applies it: by row for A's, by column for B's."""
    if scale is None or isinstance(scale, float | int):
        return None if scale == 1.0 else scale
    factor = _shaped(as_tensor(scale, out).to(out.dtype), shape, name, f"{argument[0]}_scale_shape")
    length = out.shape[-2] if rows else out.shape[-1]
    if factor.numel() == 1:
        return factor.reshape(())
    if factor.numel() == length:
        return factor.reshape((length, 1) if rows else (1, length))
    expected = f"1 number, {length}, or a shape that broadcasts to {list(out.shape)}"
    check(is_expandable_to(factor.shape, out.shape), name, argument, factor, expected)
    return factor


def fp8_gemm(a: operators.Fp8Gemm) -> Tensor:
    """`fp8_gemm_v2` into `out`, which has the result's shape and dtype."""
    result = _gemm(a, None)
    expect(a, "out", a.out.shape == result.shape, f"a tensor of shape {list(result.shape)}")
    expect(a, "out", a.out.dtype is a.out_dtype, f"a tensor of out_dtype, {a.out_dtype}")
    return a.out.copy_(result)


def conv2d_fp8(a: operators.Conv2dFp8) -> Tensor:
    """conv2d(input, weight) * scale_input * scale_weight + bias in `out_dtype` (default bfloat16), from float32.

    input: [N, C, H, W], weight: [O, C / groups, h, w], bias: [O]; scales: a number, or one for each of O channels.
    """
    check_dims("conv2d_fp8", "input", a.input, 3, 4)
    check_dims("conv2d_fp8", "weight", a.weight, 4)
    wide = widened(a.input), widened(a.weight)
    out = torch.nn.functional.conv2d(*wide, None, a.stride, a.padding, a.dilation, a.groups)
    channels = a.weight.shape[0]
    for argument, scale in (("scale_input", a.scale_input), ("scale_weight", a.scale_weight)):
        if scale is None:
            continue
        factor = torch.full((), scale, device=out.device) if isinstance(scale, float) else scale
        expected = f"1 number or {channels}, the output's channels"
        check(factor.numel() in (1, channels), a.operator, argument, factor, expected)
        out = out * (factor.reshape(()) if factor.numel() == 1 else factor.reshape(-1, 1, 1))
    if a.bias is not None:
        out = out + a.bias.reshape(-1, 1, 1)
    return narrowed(out, a.out_dtype or torch.bfloat16)


def sum_fp8(a: operators.SumFp8) -> Tensor:
    """The sum over `dim` (all dimensions where it is None), added in float32, in `out_dtype` (default: the input's)."""
    x = a.self
    dtype = a.out_dtype or x.dtype
    expect(a, "self", x.is_floating_point(), "a floating-point tensor, usually of fp8")
    expect(a, "out_dtype", dtype.is_floating_point, "a floating-point dtype")
    dims = [d + x.dim() if d < 0 else d for d in a.dim or ()]
    fits = len(set(dims)) == len(dims) and all(0 <= d < max(x.dim(), 1) for d in dims)
    check(fits, a.operator, "dim", a.dim and list(a.dim), f"different dimensions of a tensor of {x.dim()}")
    return narrowed(torch.sum(widened(x), a.dim, a.keepdim), dtype)


def softmax_fp8(a: operators.SoftmaxFp8) -> Tensor:
    """softmax(input * input_scale * inv_attn_heads + fused_add, dim) * output_scale.

    In float8_e4m3fn if the input is fp8 or an output scale is given, else in the input's dtype; computed in float32.
    """
    x = scaled(a.input, a.input_scale, None, "softmax_fp8")
    x = scaled(x, a.inv_attn_heads, None, "softmax_fp8")
    if a.fused_add is not None:
        x = x + a.fused_add
    result = torch.softmax(x, a.dim)
    if a.output_scale is None and not is_fp8(a.input.dtype):
        return result.to(a.input.dtype)
    return quantize(scaled(result, a.output_scale, None, "softmax_fp8"), E4M3)
