"""Rotary position embeddings."""

import enum
from typing import NamedTuple

import torch
from torch import Tensor

from openhpu import _C
from openhpu.device.mode import is_lazy
from openhpu.interface.gaudi_ops import operators
from openhpu.interface.gaudi_ops.errors import check


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


class _Layout(enum.Enum):
    """The dimensions of a table of sines or cosines, but for the last one and those of 1."""

    POSITIONS = enum.auto()
    BATCH_AND_POSITIONS = enum.auto()  # of an input that also has heads
    OF_INPUT = enum.auto()  # it broadcasts to the input as it is


def _layout(x: Tensor, table: Tensor, axes: list[int]) -> _Layout:
    """`axes`: the table's dimensions that are not of 1, but for the last one."""
    has_heads = x.dim() == 4
    if len(axes) == 1:
        # Its positions are taken: a row for each member of the batch.
        taken = has_heads and table.dim() == 4 and axes == [0] and table.shape[0] == x.shape[0]
        return _Layout.OF_INPUT if taken else _Layout.POSITIONS
    if has_heads and table.dim() == 3 and table.shape[0] == x.shape[0]:
        return _Layout.BATCH_AND_POSITIONS
    return _Layout.OF_INPUT


class Positions(NamedTuple):
    """Which rows of a table belong to an input: those of `position_ids`, or those from `offset` on. `mode`: which
    coordinates rotate together. `operator`: the name in errors."""

    operator: str
    position_ids: Tensor | None
    offset: int
    mode: int


def angles(wanted: Positions, x: Tensor, table: Tensor) -> Tensor:
    """The rows of a table of sines or cosines that belong to the positions of `x`, as wide as `x`.

    A table with one dimension of positions ([positions, D], [1, 1, positions, D], [positions, 1, D]) is indexed by
    position_ids, or from `offset` on. Any other, [batch, 1, 1, D] and [batch, S, D] among them, broadcasts to `x` as it
    is. D may be half of x's last dimension.
    """
    name = wanted.operator
    check(table.dim() >= 1 and table.is_floating_point(), name, "cos", table, "a floating-point tensor [..., D]")
    axes = [axis for axis in range(table.dim() - 1) if table.shape[axis] != 1]
    layout = _layout(x, table, axes)
    if layout is _Layout.POSITIONS:
        if wanted.position_ids is None:
            table = _from_offset(name, x, table, axes[0], wanted.offset)
        else:
            table = _by_index(name, x, wanted.position_ids, table.reshape(table.shape[axes[0]], table.shape[-1]))
    elif layout is _Layout.BATCH_AND_POSITIONS:
        table = table.unsqueeze(1 if table.shape[1] in (1, x.shape[2]) else 2)  # the same for all heads
    if table.shape[-1] * 2 == x.shape[-1]:
        halves = wanted.mode == RotaryPosEmbeddingMode.BLOCKWISE
        table = torch.cat((table, table), -1) if halves else table.repeat_interleave(2, -1)
    wide = x.shape[-1]
    check(table.shape[-1] == wide, name, "cos", table, f"a last dimension of {wide}, the input's, or half")
    fits = table.dim() <= x.dim() and all(m in (1, n) for m, n in zip(table.shape[::-1], x.shape[::-1], strict=False))
    check(fits, name, "cos", table, f"a table of positions, or a shape that broadcasts to {list(x.shape)}")
    return table


def _by_index(name: str, x: Tensor, position_ids: Tensor, table: Tensor) -> Tensor:
    """Rows of [positions, D] by position_ids, which lie as two dimensions of `x` do: those of batch and length."""
    wanted = f"integers [batch, {x.shape[-2]}], or with the shape of the input's first two dimensions"
    whole = position_ids.dim() == 2 and not position_ids.is_floating_point()
    check(whole, name, "position_ids", position_ids, wanted)
    batch, length = position_ids.shape
    heads_first = length == x.shape[-2] and (x.dim() < 3 or batch in (1, x.shape[0]))
    length_first = x.dim() == 4 and list(position_ids.shape) in ([x.shape[0], x.shape[1]], [1, x.shape[1]])
    check(heads_first or length_first, name, "position_ids", position_ids, wanted)
    rows = table[position_ids]
    if x.dim() != 4:
        return rows
    return rows.unsqueeze(1 if heads_first else 2)


def _from_offset(name: str, x: Tensor, table: Tensor, axis: int, offset: int) -> Tensor:
    """The positions of a table from `offset` on, along the dimension of `x` that is the length."""
    candidates = [axis - table.dim() + x.dim()]
    if table.dim() == 3 and axis == 0 and x.dim() == 4:  # [positions, 1, D]
        candidates = [0, 1, 2] if x.shape[2] == 1 else [1, 0, 2]
    left = table.shape[axis] - offset
    fitting = sorted((a for a in candidates if x.shape[a] <= left), key=lambda a: -int(x.shape[a]))  # the longest first
    found = [a for a in candidates if x.shape[a] == left] or fitting
    wanted = f"{offset + x.shape[candidates[0]]} positions, offset and length, or a shape that broadcasts to"
    check(offset >= 0 and len(found) > 0, name, "cos", table, f"{wanted} {list(x.shape)}")
    shape = [1] * x.dim()
    shape[found[0]], shape[-1] = x.shape[found[0]], table.shape[-1]
    return table.narrow(axis, offset, x.shape[found[0]]).reshape(shape)


def _cosine_and_sine(wanted: Positions, x: Tensor, cosines: Tensor, sines: Tensor) -> list[Tensor]:
    """Of the positions of `x`."""
    name, mode = wanted.operator, wanted.mode
    check(x.is_floating_point() and x.dim() >= 2, name, "input", x, "a floating-point tensor [..., length, dimension]")
    check(x.shape[-1] % 2 == 0, name, "input", x, "an even last dimension")
    check(mode in (0, 1), name, "mode", mode, "0 (blockwise) or 1 (pairwise)")
    return [angles(wanted, x, table) for table in (cosines, sines)]


def rotary_pos_embedding(a: operators.RotaryPosEmbedding) -> Tensor:
    """input * cos + rotate(input) * sin, each step in the input's dtype, as models write it.

    input: [..., S, D]; sin, cos: [positions, D], also with dimensions of 1 before, or one that broadcasts to the input
    ([batch, 1, 1, D]). Of [positions, 1, D] the input is [S, heads, D], [batch, S, heads, D], [S, batch, heads, D] or
    [batch, heads, S, D], whichever has a dimension of that length (in this order); if none has, the longest of these
    dimensions that is shorter than the table is the length. position_ids: [batch, S], or the input's first two
    dimensions; None: positions start at `offset`. Raises RuntimeError for shapes that do not fit.
    Source: the operator's schema; J. Su et al., RoFormer, 2021.
    """
    x = a.input
    wanted = Positions(a.operator, a.position_ids, a.offset, a.mode)
    cosine, sine = (table.to(x.dtype) for table in _cosine_and_sine(wanted, x, a.cos, a.sin))
    turned = rotate(x, a.mode)
    alone = type(x) is Tensor and not _C.is_capturing() and not is_lazy()  # run, not traced or recorded
    if alone or x.dtype not in (torch.bfloat16, torch.float16):
        return x * cosine + turned * sine
    # The same numbers. A recipe rounds where casts are written, and at the end otherwise.
    products = [(m.float() * n.float()).to(x.dtype).float() for m, n in ((x, cosine), (turned, sine))]
    return (products[0] + products[1]).to(x.dtype)


def rotary_pos_embedding_backward(a: operators.RotaryPosEmbeddingBackward) -> Tensor:
    """The gradient of `rotary_pos_embedding`'s input: the rotation the other way."""
    x = a.grad_in.float()
    wanted = Positions(a.operator, a.position_ids, a.offset, a.mode)
    cosine, sine = _cosine_and_sine(wanted, a.grad_in, a.cos, a.sin)
    return (x * cosine - rotate(x * sine, a.mode)).to(a.grad_in.dtype)
