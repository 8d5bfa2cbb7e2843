"""Softmaxes with masks, scales and groups."""

import math

import torch
from torch import Tensor

from openhpu.interface.gaudi_ops import operators
from openhpu.interface.gaudi_ops.errors import expect
from openhpu.interface.gaudi_ops.fp8 import widened


def scaled_masked_softmax(input: Tensor, mask: Tensor, scale: float) -> Tensor:
    """softmax(input * scale + mask) over the last dimension, computed in float32. A bool mask is True where seen."""
    x = widened(input) * scale
    x = x.masked_fill(~mask, -math.inf) if mask.dtype is torch.bool else x + mask
    return torch.softmax(x, -1).to(input.dtype)


def _triangle(x: Tensor) -> Tensor:
    """True where a row's position is at or after the column's; of fewer rows than columns the last row is the last
    column's, as where the next token is added to a sequence.
    """
    before = max(x.shape[-1] - x.shape[-2], 0)
    rows = torch.arange(before, before + x.shape[-2], device=x.device).unsqueeze(-1)
    return torch.arange(x.shape[-1], device=x.device) <= rows


def scaled_triangular_softmax(a: operators.ScaledTriangularSoftmax) -> Tensor:
    """The softmax of self * inv_scale_attn over the last dimension, where column <= row, else 0.

    self: [..., rows, columns]. With `max` and `exp_sum_recpr`, [..., rows, 1] of `scaled_triangular_softmax_retain`,
    it is exp(x - max) * exp_sum_recpr.
    """
    expect(a, "self", a.self.dim() >= 2, "[..., rows, columns]")
    x = (widened(a.self) * a.inv_scale_attn).masked_fill(~_triangle(a.self), -math.inf)
    if a.exp_sum_recpr is None or a.max is None:
        return torch.softmax(x, -1).to(a.self.dtype)
    return (torch.exp(x - a.max) * a.exp_sum_recpr).to(a.self.dtype)


def scaled_triangular_softmax_retain(self: Tensor, inv_scale_attn: float) -> tuple[Tensor, Tensor, Tensor]:
    """`scaled_triangular_softmax`; of each row 1 / the sum of exponentials (float32) and the maximum (self's dtype)."""
    x = (widened(self) * inv_scale_attn).masked_fill(~_triangle(self), -math.inf)
    maximum = x.amax(-1, keepdim=True).to(self.dtype)  # as it is returned, so that it gives the same again
    e = torch.exp(x - maximum)
    reciprocal = 1.0 / e.sum(-1, keepdim=True)
    return (e * reciprocal).to(self.dtype), reciprocal, maximum


def scaled_masked_triangular_softmax(a: operators.ScaledMaskedTriangularSoftmax) -> Tensor:
    """The softmax of self * inv_scale_attn, where column <= row and start <= column < end of the row's sequence.

    The last row is the last column's where there are fewer rows.
    self: [batch, heads, rows, columns]; start_end: integers [groups, 2] or [1, groups, 2], for `grouped_batch_size`
    entries of the first dimension each. Others, and rows that see nothing, are 0. `use_max` and `mode` choose between
    ways to the same numbers.
    """
    scores, each = a.self, max(a.grouped_batch_size, 1)
    expect(a, "self", scores.is_floating_point(), "a floating-point tensor")
    expect(a, "start_end", a.start_end.numel() % 2 == 0, "integers [groups, 2]")
    ends = a.start_end.reshape(-1, 2)
    fits = scores.dim() >= 3 and ends.shape[0] * each == scores.shape[0]
    expect(a, "start_end", fits, f"{scores.shape[0]} / grouped_batch_size pairs")
    ends = ends.repeat_interleave(each, 0).reshape(scores.shape[0], *[1] * (scores.dim() - 2), 2)
    columns = torch.arange(scores.shape[-1], device=scores.device)
    seen = _triangle(scores) & (columns >= ends[..., :1]) & (columns < ends[..., 1:])
    x = (widened(scores) * a.inv_scale_attn).masked_fill(~seen, -math.inf)
    return torch._safe_softmax(x, -1).to(a.out_dtype or scores.dtype)


def custom_softmax(input: Tensor, flavor: int) -> Tensor:
    """softmax over the last dimension. Gaudi's flavors differ in speed and error; here each is the exact one."""
    return torch.softmax(widened(input), -1).to(input.dtype)


def ragged_softmax(self: Tensor, dim: int, half_to_float: bool, valid_count: Tensor) -> Tensor:
    """softmax over the first `valid_count` positions of `dim`; those after it are 0.

    valid_count: one for each entry of the first dimension, or a tensor broadcasting to self with 1 in `dim`.
    """
    counts = valid_count.reshape(-1, *[1] * (self.dim() - 1)) if valid_count.dim() == 1 else valid_count
    shape = [1] * self.dim()
    shape[dim] = self.shape[dim]
    valid = torch.arange(self.shape[dim], device=self.device).reshape(shape) < counts
    x = torch.softmax(widened(self).masked_fill(~valid, -math.inf), dim)
    return torch.where(valid, x, 0.0).to(torch.float32 if half_to_float else self.dtype)


def block_softmax(attn: Tensor, block_bias: Tensor | None, block_groups: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of each block exp(x - max x), max x and the sum of exponentials over the last dimension; x = attn + block_bias.

    attn: [blocks, ...]; the last two keep the last dimension as 1. Source: vLLM's form in PyTorch's operators.
    """
    x = widened(attn) if block_bias is None else widened(attn) + block_bias
    maximum = x.amax(-1, keepdim=True)
    e = torch.exp(x - maximum)
    return e.to(attn.dtype), maximum.to(attn.dtype), e.sum(-1, keepdim=True).to(attn.dtype)


def block_softmax_adjustment(a: operators.BlockSoftmaxAdjustment) -> Tensor:
    """The factor of each block's product, so that the blocks of a sequence add up to its attention.

    block_maxes, block_sums: [blocks, ...] of `block_softmax`; block_groups: [blocks], the sequence of each, -1 or
    `batch_size` for padding. Returns exp(max - max of the sequence) / sum of the sequence, in block_maxes' dtype.
    """
    shape, count = a.block_maxes.shape, a.block_maxes.shape[0]
    expect(a, "block_sums", a.block_sums.shape == shape, f"shape {list(shape)}, as block_maxes")
    maxima, sums = widened(a.block_maxes).reshape(count, -1), widened(a.block_sums).reshape(count, -1)
    groups = torch.where(a.block_groups < 0, a.batch_size, a.block_groups).long()
    start = torch.full([a.batch_size + 1, maxima.shape[1]], -math.inf, dtype=maxima.dtype, device=maxima.device)
    tops = start.scatter_reduce(0, groups.unsqueeze(-1).expand_as(maxima), maxima, "amax").index_select(0, groups)
    adjustment = torch.exp(maxima - tops)
    adjusted = sums * adjustment
    totals = torch.zeros_like(start).index_put((groups,), adjusted, True).index_select(0, groups)
    result = adjustment / torch.maximum(totals, adjusted)
    return result.reshape(shape if a.out_shape is None else a.out_shape).to(a.block_maxes.dtype)
