"""Rotary position embeddings."""

import enum

import torch
from torch import Tensor

from openhpu import _C
from openhpu.device.mode import is_lazy
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


def angles(name: str, x: Tensor, table: Tensor, position_ids: Tensor | None, offset: int, mode: int) -> Tensor:
    """The rows of a table of sines or cosines that belong to the positions of `x`, as wide as `x`.

    A table with one dimension of positions ([positions, D], [1, 1, positions, D], [positions, 1, D]) is indexed by
    position_ids, or from `offset` on. Any other, [batch, 1, 1, D] and [batch, S, D] among them, broadcasts to `x` as it
    is. D may be half of x's last dimension.
    """
    check(table.dim() >= 1 and table.is_floating_point(), name, "cos", table, "a floating-point tensor [..., D]")
    axes = [axis for axis in range(table.dim() - 1) if table.shape[axis] != 1]
    positions = table.shape[axes[0]] if axes else 1
    of_batch = table.dim() == x.dim() == 4 and axes == [0] and table.shape[0] == x.shape[0]  # its positions are taken
    if position_ids is not None and len(axes) == 1 and not of_batch:
        table = _by_index(name, x, table.reshape(positions, table.shape[-1]), position_ids)
    elif position_ids is None and len(axes) == 1 and not of_batch:
        table = _from_offset(name, x, table, axes[0], offset)
    elif table.dim() == 3 and x.dim() == 4 and table.shape[0] == x.shape[0]:
        table = table.unsqueeze(1 if table.shape[1] in (1, x.shape[2]) else 2)  # the same for all heads
    if table.shape[-1] * 2 == x.shape[-1]:
        table = torch.cat((table, table), -1) if mode == RotaryPosEmbeddingMode.BLOCKWISE else (
            table.repeat_interleave(2, -1)
        )  # fmt: skip
    check(
        table.shape[-1] == x.shape[-1], name, "cos", table, f"a last dimension of {x.shape[-1]}, the input's, or half"
    )
    fits = table.dim() <= x.dim() and all(a in (1, b) for a, b in zip(table.shape[::-1], x.shape[::-1], strict=False))
    check(fits, name, "cos", table, f"a table of positions, or a shape that broadcasts to {list(x.shape)}")
    return table


def _by_index(name: str, x: Tensor, table: Tensor, position_ids: Tensor) -> Tensor:
    """Rows of [positions, D] by position_ids, which lie as two dimensions of `x` do: those of batch and length."""
    wanted = f"integers [batch, {x.shape[-2]}], or with the shape of the input's first two dimensions"
    check(position_ids.dim() == 2 and not position_ids.is_floating_point(), name, "position_ids", position_ids, wanted)
    batch, length = position_ids.shape
    heads_first = length == x.shape[-2] and (x.dim() < 3 or batch in (1, x.shape[0]))
    check(
        heads_first or (x.dim() == 4 and list(position_ids.shape) in ([x.shape[0], x.shape[1]], [1, x.shape[1]])),
        name, "position_ids", position_ids, wanted,
    )  # fmt: skip
    rows = table[position_ids]
    return rows.unsqueeze(1 if heads_first else 2) if x.dim() == 4 else rows


def _from_offset(name: str, x: Tensor, table: Tensor, axis: int, offset: int) -> Tensor:
    """The positions of a table from `offset` on, along the dimension of `x` that is the length."""
    candidates = [axis - table.dim() + x.dim()]
    if table.dim() == 3 and axis == 0 and x.dim() == 4:  # [positions, 1, D]
        candidates = [0, 1, 2] if x.shape[2] == 1 else [1, 0, 2]
    left = table.shape[axis] - offset
    fitting = sorted((a for a in candidates if x.shape[a] <= left), key=lambda a: -int(x.shape[a]))  # the longest first
    found = [a for a in candidates if x.shape[a] == left] or fitting
    check(
        offset >= 0 and len(found) > 0, name, "cos", table,
        f"{offset + x.shape[candidates[0]]} positions, offset and length, or a shape that broadcasts to "
        f"{list(x.shape)}",
    )  # fmt: skip
    shape = [1] * x.dim()
    shape[found[0]], shape[-1] = x.shape[found[0]], table.shape[-1]
    return table.narrow(axis, offset, x.shape[found[0]]).reshape(shape)


def _cosine_and_sine(
    name: str, x: Tensor, sin: Tensor, cos: Tensor, position_ids: Tensor | None, offset: int, mode: int
) -> list[Tensor]:
    """Of the positions of `x`."""
    check(x.is_floating_point() and x.dim() >= 2, name, "input", x, "a floating-point tensor [..., length, dimension]")
    check(x.shape[-1] % 2 == 0, name, "input", x, "an even last dimension")
    check(mode in (0, 1), name, "mode", mode, "0 (blockwise) or 1 (pairwise)")
    return [angles(name, x, table, position_ids, offset, mode) for table in (cos, sin)]


def rotary_pos_embedding(
    input: Tensor, sin: Tensor, cos: Tensor, position_ids: Tensor | None, offset: int, mode: int
) -> Tensor:
    """input * cos + rotate(input) * sin, each step in the input's dtype, as models write it.

    input: [..., S, D]; sin, cos: [positions, D], also with dimensions of 1 before, or one that broadcasts to the input
    ([batch, 1, 1, D]). Of [positions, 1, D] the input is [S, heads, D], [batch, S, heads, D], [S, batch, heads, D] or
    [batch, heads, S, D], whichever has a dimension of that length (in this order); if none has, the longest of these
    dimensions that is shorter than the table is the length. position_ids: [batch, S], or the input's first two
    dimensions; None: positions start at `offset`. Raises RuntimeError for shapes that do not fit.
    Source: the operator's schema; J. Su et al., RoFormer, 2021.
    """
    cosine, sine = _cosine_and_sine("rotary_pos_embedding", input, sin, cos, position_ids, offset, mode)
    cosine, sine, turned = cosine.to(input.dtype), sine.to(input.dtype), rotate(input, mode)
    alone = type(input) is Tensor and not _C.is_capturing() and not is_lazy()  # run, not traced or recorded
    if alone or input.dtype not in (torch.bfloat16, torch.float16):
        return input * cosine + turned * sine
    # The same numbers. A recipe rounds where casts are written, and at the end otherwise.
    products = [(a.float() * b.float()).to(input.dtype).float() for a, b in ((input, cosine), (turned, sine))]
    return (products[0] + products[1]).to(input.dtype)


def rotary_pos_embedding_backward(
    grad_in: Tensor, sin: Tensor, cos: Tensor, position_ids: Tensor | None, offset: int, mode: int
) -> Tensor:
    """The gradient of `rotary_pos_embedding`'s input: the rotation the other way."""
    x = grad_in.float()
    cosine, sine = _cosine_and_sine("rotary_pos_embedding_backward", grad_in, sin, cos, position_ids, offset, mode)
    return (x * cosine - rotate(x * sine, mode)).to(grad_in.dtype)
