"""PyTorch's operators `quantized_decomposed::{de,}quantize_per_{tensor,channel}` on the device.

Bit for bit round(input / scale) + zero_point in float32, clamped: PyTorch's own functions multiply by the inverse of
the scale, which differs beside a tie, read scales that are tensors on the host, and refuse zero points beside float8.
An exception are scales for channels that have 16 bits: their inverse is taken, in their dtype, and multiplies, as in
PyTorch's function. For float8 the cast alone rounds, as in `cast_to_fp8_v2`, where PyTorch's own functions round to
whole numbers first. Source: Neural Compressor's tests of "qdq", which compare both ways to quantise a layer.
"""

import functools

import torch
from torch import Tensor

from openhpu.interface.gaudi_ops.errors import check

NAMESPACE = "quantized_decomposed"
Number = Tensor | float


def quantize(
    input: Tensor, scale: Number, zero_point: Number, quant_min: Number, quant_max: Number, dtype: torch.dtype
) -> Tensor:
    """clamp(round(input / scale) + zero_point, quant_min, quant_max) in `dtype`, in float32; to float8 without round.

    input: floating point, any shape; scale, zero_point, bounds: numbers or tensors of one number, zero points and
    bounds of any dtype. Raises RuntimeError for others.
    """
    return _quantized(f"{NAMESPACE}::quantize_per_tensor", input, scale, zero_point, quant_min, quant_max, dtype)


def quantize_by_channel(
    input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, quant_min: int, quant_max: int, dtype: torch.dtype
) -> Tensor:
    """`quantize` with a scale for each channel, [channels], along `axis`, and zero points alike or one for all, []."""
    name = f"{NAMESPACE}::quantize_per_channel"
    scale, zero = _along(name, "scales", scales, input, axis), _along(name, "zero_points", zero_points, input, axis)
    if scale.dtype not in (torch.bfloat16, torch.float16):
        return _quantized(name, input, scale, zero, quant_min, quant_max, dtype)
    check(input.is_floating_point(), name, "input", input, "a floating-point tensor")
    return _quantized(name, input.float() * (1.0 / scale).float(), 1.0, zero, quant_min, quant_max, dtype)


def _quantized(
    name: str, input: Tensor, scale: Number, zero_point: Number, low: Number, high: Number, dtype: torch.dtype
) -> Tensor:
    check(input.is_floating_point(), name, "input", input, "a floating-point tensor")
    rounded = input.float() / _float(scale)
    if not dtype.is_floating_point:
        rounded = torch.round(rounded)
    rounded = rounded + _float(zero_point)
    if isinstance(low, Tensor) or isinstance(high, Tensor):
        bounds = [torch.as_tensor(bound, dtype=torch.float32, device=input.device) for bound in (low, high)]
        return torch.minimum(torch.maximum(rounded, bounds[0]), bounds[1]).to(dtype)
    return rounded.clamp(low, high).to(dtype)


def dequantize(
    input: Tensor,
    scale: Number,
    zero_point: Number,
    quant_min: Number,
    quant_max: Number,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """(input - zero_point) * scale in `out_dtype` (default float32), computed in float32. Shapes as in `quantize`."""
    name = f"{NAMESPACE}::dequantize_per_tensor"
    check(input.dtype is dtype, name, "input", input, f"a tensor of `dtype`, {dtype}")
    return ((input.float() - _float(zero_point)) * _float(scale)).to(out_dtype or torch.float32)


def dequantize_by_channel(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """`dequantize` with scales and zero points (None: 0) as in `quantize_by_channel`."""
    name = f"{NAMESPACE}::dequantize_per_channel"
    check(input.dtype is dtype, name, "input", input, f"a tensor of `dtype`, {dtype}")
    scale = _along(name, "scales", scales, input, axis)
    numbers = input.float()
    if zero_points is not None:
        numbers = numbers - _along(name, "zero_points", zero_points, input, axis).float()
    return (numbers * scale.float()).to(out_dtype or torch.float32)


def _float(number: Number) -> Number:
    return number.float().reshape(()) if isinstance(number, Tensor) and number.numel() == 1 else number


def _along(name: str, argument: str, table: Tensor, input: Tensor, axis: int) -> Tensor:
    """[channels] as it broadcasts to the input along `axis`, or one zero point for all."""
    if argument == "zero_points" and table.dim() == 0:
        return table
    check(-input.dim() <= axis < input.dim(), name, "axis", axis, f"a dimension of an input of {input.dim()}")
    size = input.shape[axis]
    check(table.dim() == 1 and table.numel() == size, name, argument, table, f"[{size}], one for each channel")
    shape = [1] * input.dim()
    shape[axis] = size
    return table.reshape(shape)


@functools.cache
def install() -> torch.library.Library:
    """Register them for the device, whether or not their definitions have been imported yet."""
    library = torch.library.Library(NAMESPACE, "IMPL")
    for form in ("", ".tensor", ".tensor2"):
        library.impl(f"quantize_per_tensor{form}", quantize, "HPU")
        library.impl(f"dequantize_per_tensor{form}", dequantize, "HPU")
    library.impl("quantize_per_channel", quantize_by_channel, "HPU")
    library.impl("dequantize_per_channel", dequantize_by_channel, "HPU")
    return library
