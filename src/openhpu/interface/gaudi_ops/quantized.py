"""Numbers of 4 bits: packed integers, nf4, fp4."""

import math

import torch
from torch import Tensor

from openhpu.interface.gaudi_ops import operators
from openhpu.interface.gaudi_ops.errors import check, expect
from openhpu.interface.gaudi_ops.fp8 import E4M3, widened

# Quantiles of the normal distribution, as published with QLoRA (T. Dettmers et al., 2023).
NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip


def unpacked(packed: Tensor) -> Tensor:
    """Eight numbers of 4 bits from each int32, the lowest bits first: [..., n] becomes [..., 8 n], 0 to 15."""
    shifts = torch.arange(0, 32, 4, dtype=torch.int32, device=packed.device)
    return ((packed.unsqueeze(-1) >> shifts) & 0xF).flatten(-2)


def _as_signed(numbers: Tensor, signed: bool) -> Tensor:
    return torch.where(numbers > 7, numbers - 16, numbers) if signed else numbers


def _by_group(name: str, argument: str, table: Tensor, numbers: Tensor, index: Tensor | None) -> Tensor:
    """A row of `table` for each row of `numbers`: for groups of rows that follow each other, or by index."""
    if table.dim() < 2 or numbers.dim() < 2 or (index is None and table.shape[-2] in (1, numbers.shape[-2])):
        return table
    if index is not None:
        return table.index_select(-2, index)
    rows, groups = numbers.shape[-2], table.shape[-2]
    check(rows % groups == 0, name, argument, table, f"a number of rows that divides {rows}, the input's")
    return table.repeat_interleave(rows // groups, -2)


def convert_from_int4(a: operators.ConvertFromInt4) -> Tensor:
    """(input - zero_point) * scale for numbers from -8 to 7; from 0 to 15 for `convert_from_uint4`.

    input: int32 [..., K, N / 8], eight numbers each, the lowest bits first; scale: [groups, N] or one that broadcasts;
    zero_point: as scale, or packed as the input; group_index: [K], the group of each row, else groups follow each
    other. Returns [..., K, N] in `out_dtype`, computed in float32. Source: the operator's schema, GPTQ's format.
    """
    name, signed, zero_point = a.operator, a.operator == "convert_from_int4", a.zero_point
    expect(a, "input", a.input.dtype is torch.int32, "an int32 tensor, eight numbers in each element")
    expect(a, "out_dtype", a.out_dtype.is_floating_point, "a floating-point dtype")
    numbers = _as_signed(unpacked(a.input), signed)
    if zero_point is not None:
        packed = zero_point.dtype is torch.int32 and zero_point.shape[-1] * 8 == numbers.shape[-1]
        zero_point = _as_signed(unpacked(zero_point), signed) if packed else zero_point
        numbers = numbers - _by_group(name, "zero_point", zero_point, numbers, a.group_index)
    return (numbers.float() * _by_group(name, "scale", a.scale, numbers, a.group_index).float()).to(a.out_dtype)


def dequantize_nf4(a: operators.DequantizeNf4) -> Tensor:
    """Numbers of nf4, two in each byte, the first in the upper bits, times the largest of their block.

    input: uint8, (n + 1) / 2 elements; absmax: one for each block of `blocksize`; returns n numbers of `out_shape`.
    """
    shape, size = list(a.out_shape), a.blocksize
    count = math.prod(shape)
    blocks = -(-count // size)
    expect(a, "input", a.input.dtype is torch.uint8, "a uint8 tensor")
    expect(a, "input", a.input.numel() == (count + 1) // 2, f"{(count + 1) // 2} bytes, for {shape}")
    expect(a, "absmax", a.absmax.numel() == blocks, f"{blocks} numbers, one for each block of {size}")
    flat = a.input.reshape(-1).to(torch.int32)
    codes = torch.stack((flat >> 4, flat & 0xF), -1).reshape(-1)
    values = torch.tensor(NF4, dtype=torch.float32, device=a.input.device).index_select(0, codes)
    padded = torch.nn.functional.pad(values, (0, blocks * size - values.numel())) if values.numel() else values
    scaled = padded[: blocks * size].reshape(blocks, size) * a.absmax.reshape(-1, 1).float()
    return scaled.reshape(-1)[:count].reshape(shape).to(a.out_dtype)


# fp4 is e2m1: its positive numbers, and halfway between them.
_FP4_TOP = 6.0


def fake_quant_fp4(input: Tensor, stochastic_rounding: bool, axis: int, dtype: str) -> Tensor:
    """The input rounded to fp4 (e2m1) with a scale for each block along `axis`, in its own dtype.

    `dtype`: "mxfp4", blocks of 32 with a power of two each (OCP Microscaling Formats, 1.0), or "nvfp4", blocks of 16
    with a scale in e4m3.
    """
    name = "fake_quant_fp4"
    check(dtype in ("mxfp4", "nvfp4"), name, "dtype", dtype, "mxfp4 or nvfp4")
    size = 32 if dtype == "mxfp4" else 16
    moved = widened(input).movedim(axis, -1)
    length = moved.shape[-1]
    blocks = torch.nn.functional.pad(moved, (0, -length % size)).unflatten(-1, (-1, size))
    top = blocks.abs().amax(-1, keepdim=True)
    if dtype == "mxfp4":
        scale = torch.exp2(torch.floor(torch.log2(top.clamp_min(2.0**-125))) - 2.0)
    else:
        scale = (top / _FP4_TOP).clamp(2.0**-9, 448.0).to(E4M3).to(blocks.dtype)
    x = (blocks / scale).clamp(-_FP4_TOP, _FP4_TOP)
    step = torch.exp2(torch.floor(torch.log2(x.abs().clamp_min(1.0)))) * 0.5
    rounded = torch.floor(x / step + torch.rand_like(x)) if stochastic_rounding else torch.round(x / step)
    result = (rounded * step * scale).flatten(-2)[..., :length]
    return result.movedim(-1, axis).to(input.dtype)


def calculate_scale_for_cast(a: operators.CalculateScaleForCast) -> Tensor:
    """max |input| / (fullscale * backoff), by which numbers are divided before a cast to fp8, in the input's dtype.

    scale_mode: 0, the input is a scale already; 1, the maximum of all; 2, those along reduceAxis. scale_type: 0, as it
    is; 1, the next power of two. Source: Neural Compressor's calls and the names of its modes.
    """
    expect(a, "input", a.input.is_floating_point(), "a floating-point tensor")
    expect(a, "scale_mode", a.scale_mode in (0, 1, 2), "0, 1 or 2")
    expect(a, "scale_type", a.scale_type in (0, 1), "0 or 1")
    expect(a, "fullscale", a.fullscale > 0, "a number above 0")
    expect(a, "backoff", a.backoff > 0, "a number above 0")
    result = widened(a.input)
    if a.scale_mode == 1:
        result = result.abs().amax() / (a.fullscale * a.backoff)
    elif a.scale_mode == 2:
        axis = a.reduceAxis
        fits = axis is not None and -a.input.dim() <= axis < a.input.dim()
        expect(a, "reduceAxis", fits, f"a dimension of an input of {a.input.dim()}, with scale_mode 2")
        assert axis is not None
        result = result.abs().amax(axis, a.reduceKeepdim) / (a.fullscale * a.backoff)
    if a.scale_type == 1:
        result = torch.exp2(torch.ceil(torch.log2(result)))
    return result.to(a.input.dtype)
