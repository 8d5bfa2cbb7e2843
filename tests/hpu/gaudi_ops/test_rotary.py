"""Rotary position embeddings, against complex numbers in float64."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch

ops = torch.ops.hpu


def tables(positions, size):
    angle = torch.rand(positions, size // 2) * 6
    return angle, angle.cos(), angle.sin()


def turned(x, angle, mode):
    """x, whose pairs of coordinates are complex numbers, times exp(i angle)."""
    x = x.double()
    pairs = (
        torch.complex(*x.chunk(2, -1)) if mode == 0 else torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    )
    y = pairs * torch.polar(torch.ones_like(angle.double()), angle.double())
    return torch.cat((y.real, y.imag), -1) if mode == 0 else torch.view_as_real(y).flatten(-2)


def widened(table, mode):
    return torch.cat((table, table), -1) if mode == 0 else table.repeat_interleave(2, -1)


class Placed(NamedTuple):
    """Sizes of the data, of the table but for its last dimension, and of position ids; `rows`: of the angles."""

    data: tuple[int, ...]
    table: tuple[int, ...]
    rows: Callable[[Any, Any], Any]
    ids: tuple[int, ...] | None = None
    offset: int = 0


def _of_each(angle, ids):
    return angle[ids][:, None]


def _of_each_before_heads(angle, ids):
    return angle[ids][:, :, None]


PLACED = {
    "from an offset": Placed((2, 3, 5, 8), (9,), lambda angle, _: angle[2:7], offset=2),
    "beside heads": Placed((2, 5, 3, 8), (1, 5, 1), lambda angle, _: angle[None, :, None]),
    "by index": Placed((2, 3, 5, 8), (9,), _of_each, ids=(2, 5)),
    "by index, of four dimensions": Placed((2, 3, 5, 8), (1, 1, 9), _of_each, ids=(2, 5)),
    "by index, heads first": Placed((2, 3, 5, 8), (9, 1), _of_each, ids=(2, 5)),
    "by index, heads second": Placed((2, 5, 3, 8), (9, 1), _of_each_before_heads, ids=(2, 5)),
    "by index, length first": Placed((5, 2, 3, 8), (9, 1), _of_each_before_heads, ids=(5, 2)),
}
BY_BATCH = {
    f"a row for each of {batch}, {'with' if ids else 'without'} ids": Placed(
        (batch, 3, length, 8), (batch, 1, 1), lambda angle, _: angle[:, None, None], ids=ids
    )
    for batch, length in ((5, 1), (1, 1), (2, 7))
    for ids in (None, (batch, length))
}


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("case", PLACED | BY_BATCH)
def test_which_row_of_the_table_turns_which_position(native, everywhere, case, half, mode):
    placed = (PLACED | BY_BATCH)[case]
    angle, cos, sin = tables(math.prod(placed.table), 8)
    x = torch.randn(placed.data)
    ids = torch.randint(0, 9, placed.ids) if placed.ids else None
    cos, sin = ((t if half else widened(t, mode)).reshape(*placed.table, -1) for t in (cos, sin))
    run = everywhere if half else native
    y = run(lambda x, s, c, i: ops.rotary_pos_embedding(x, s, c, i, placed.offset, mode), x, sin, cos, ids)
    torch.testing.assert_close(y.double(), turned(x, placed.rows(angle, ids), mode), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", [0, 1])
def test_the_backward_turns_back(native, mode):
    angle, cos, sin = tables(5, 8)
    grad = torch.randn(2, 3, 5, 8)
    y = native(lambda g, s, c: ops.rotary_pos_embedding_backward(g, s, c, None, 0, mode), grad, sin, cos)
    torch.testing.assert_close(y.double(), turned(grad, -angle, mode), rtol=1e-5, atol=1e-6)
    x = torch.randn(2, 3, 5, 8, device="hpu", requires_grad=True)
    ops.rotary_pos_embedding(x, sin.to("hpu"), cos.to("hpu"), None, 0, mode).backward(grad.to("hpu"))
    torch.testing.assert_close(x.grad.cpu(), y)


@pytest.mark.parametrize("mode", [0, 1])
def test_in_bfloat16_it_is_the_formula_of_models(everywhere, mode):
    x = torch.randn(64, 2, 32, dtype=torch.bfloat16)
    angles = torch.rand(64, 1, 16) * 6
    cos, sin = (t.repeat(1, 1, 2) if mode == 0 else t.repeat_interleave(2, -1) for t in (angles.cos(), angles.sin()))
    a, b = x.chunk(2, -1) if mode == 0 else (x[..., ::2], x[..., 1::2])
    turned = torch.cat((-b, a), -1) if mode == 0 else torch.stack((-b, a), -1).flatten(-2)
    expected = x * cos.bfloat16() + turned * sin.bfloat16()
    y = everywhere(lambda x, sin, cos: ops.rotary_pos_embedding(x, sin, cos, None, 0, mode), x, sin, cos)
    assert torch.equal(y, expected)
    assert not torch.equal(y, (x.float() * cos + turned.float() * sin).bfloat16())


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("offset", [0, 2])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((5, 3, 8), 0),
        ((2, 5, 3, 8), 1),
        ((1, 5, 5, 8), 1),
        ((5, 2, 3, 8), 0),
        ((5, 1, 2, 8), 0),
        ((2, 3, 5, 8), 2),
        ((1, 1, 5, 8), 2),
    ],
)
def test_a_longer_table_beside_heads(everywhere, shape, axis, offset, mode):
    angle, cos, sin = tables(7, 8)
    cos, sin = (widened(t, mode)[:, None] for t in (cos, sin))  # [7, 1, D], of which the data need 5
    x = torch.randn(shape)
    beside = [1] * len(shape)
    beside[axis], beside[-1] = 5, 4
    y = everywhere(lambda x, s, c: ops.rotary_pos_embedding(x, s, c, None, offset, mode), x, sin, cos)
    expected = turned(x, angle[offset : offset + 5].reshape(beside), mode)
    torch.testing.assert_close(y.double(), expected, rtol=1e-5, atol=1e-6)
