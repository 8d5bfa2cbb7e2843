"""Rotary position embeddings."""

from __future__ import annotations

import enum

import torch
from torch import Tensor

from openhpu.gaudi_ops.errors import check
from openhpu.gaudi_ops.registry import operator


class RotaryPosEmbeddingMode(enum.IntEnum):
    """Which coordinates rotate together: the two halves' (BLOCKWISE) or neighbours (PAIRWISE)."""

    BLOCKWISE = 0
    PAIRWISE = 1


def rotate(x: Tensor, mode: int) -> Tensor:
    """Each pair of coordinates turned by 90 degrees: (a, b) becomes (-b, a)."""
    if mode == RotaryPosEmbeddingMode.BLOCKWISE:
        first, second = x.chunk(2, -1)
        return torch.cat((-second, first), -1)
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


def angles(name: str, x: Tensor, table: Tensor, position_ids: Tensor | None, offset: int, mode: int) -> Tensor:
    """The rows of a table of sines or cosines that belong to the positions of `x`, as wide as `x`.

    The table is [positions, D] or [1, ..., positions, D], indexed by position_ids [batch, S] or from `offset` on; or it
    broadcasts to `x` as it is. D may be half of x's last dimension.
    """
    length = x.shape[-2]
    if position_ids is not None and table.numel() == table.shape[-1] * table.shape[-2]:
        check(position_ids.dim() == 2, name, "position_ids", position_ids, f"[batch, {length}]")
        table = table.reshape(table.shape[-2:])[position_ids]  # [batch, S, D]
    elif table.dim() >= 2 and (offset or table.shape[-2] not in (1, length)) and position_ids is None:
        check(
            offset >= 0 and table.shape[-2] >= offset + length, name, "cos", table,
            f"{offset + length} positions, offset and length, or a shape that broadcasts to {list(x.shape)}",
        )  # fmt: skip
        table = table.narrow(-2, offset, length)
    if table.dim() == 3 and x.dim() == 4 and table.shape[0] == x.shape[0]:
        table = table.unsqueeze(1)  # the same for all heads
    if table.shape[-1] * 2 == x.shape[-1]:
        if mode == RotaryPosEmbeddingMode.BLOCKWISE:
            return torch.cat((table, table), -1)
        return table.repeat_interleave(2, -1)
    check(
        table.shape[-1] == x.shape[-1], name, "cos", table, f"a last dimension of {x.shape[-1]}, the input's, or half"
    )
    return table


def _checked(name: str, x: Tensor, mode: int) -> None:
    check(x.is_floating_point() and x.dim() >= 2, name, "input", x, "a floating-point tensor [..., length, dimension]")
    check(x.shape[-1] % 2 == 0, name, "input", x, "an even last dimension")
    check(mode in (0, 1), name, "mode", mode, "0 (blockwise) or 1 (pairwise)")


@operator(
    "rotary_pos_embedding(Tensor input, Tensor sin, Tensor cos, Tensor? position_ids, int offset, int mode) -> Tensor",
    of="index, mul, neg, cat or stack, add",
)
def rotary_pos_embedding(
    input: Tensor, sin: Tensor, cos: Tensor, position_ids: Tensor | None, offset: int, mode: int
) -> Tensor:
    """input * cos + rotate(input) * sin, each step in the input's dtype, as models write it.

    input: [..., S, D]; sin, cos: [positions, D], also with dimensions of 1 before, or what broadcasts to the input;
    position_ids: [batch, S] or None, then positions start at `offset`. Raises RuntimeError for shapes that do not fit.
    Source: the operator's schema; J. Su et al., RoFormer, 2021.
    """
    name = "rotary_pos_embedding"
    _checked(name, input, mode)
    cosine = angles(name, input, cos, position_ids, offset, mode)
    sine = angles(name, input, sin, position_ids, offset, mode)
    return input * cosine.to(input.dtype) + rotate(input, mode) * sine.to(input.dtype)


@operator(
    "rotary_pos_embedding_backward(Tensor grad_in, Tensor sin, Tensor cos, Tensor? position_ids, int offset, int mode)"
    " -> Tensor",
    of="index, mul, neg, cat or stack, sub",
)
def rotary_pos_embedding_backward(
    grad_in: Tensor, sin: Tensor, cos: Tensor, position_ids: Tensor | None, offset: int, mode: int
) -> Tensor:
    """The gradient of `rotary_pos_embedding`'s input: the rotation the other way."""
    name = "rotary_pos_embedding_backward"
    _checked(name, grad_in, mode)
    x = grad_in.float()
    cosine = angles(name, grad_in, cos, position_ids, offset, mode)
    sine = angles(name, grad_in, sin, position_ids, offset, mode)
    return (x * cosine - rotate(x * sine, mode)).to(grad_in.dtype)
