"""Rotary position embeddings, against complex numbers in float64."""

import math

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


# Of the data, of the table beside its last dimension, of position ids; the offset; the angles that turn the data.
PLACED = {
    "from an offset": ((2, 3, 5, 8), (9,), None, 2, lambda angle, ids: angle[2:7]),
    "beside heads": ((2, 5, 3, 8), (1, 5, 1), None, 0, lambda angle, ids: angle[None, :, None]),
    "by index": ((2, 3, 5, 8), (9,), (2, 5), 0, lambda angle, ids: angle[ids][:, None]),
    "by index, of four dimensions": ((2, 3, 5, 8), (1, 1, 9), (2, 5), 0, lambda angle, ids: angle[ids][:, None]),
    "by index, heads first": ((2, 3, 5, 8), (9, 1), (2, 5), 0, lambda angle, ids: angle[ids][:, None]),
    "by index, heads second": ((2, 5, 3, 8), (9, 1), (2, 5), 0, lambda angle, ids: angle[ids][:, :, None]),
    "by index, length first": ((5, 2, 3, 8), (9, 1), (5, 2), 0, lambda angle, ids: angle[ids][:, :, None]),
    **{
        f"a row for each of {batch}, {'with' if ids else 'without'} ids": (
            (batch, 3, length, 8),
            (batch, 1, 1),
            ids and (batch, length),
            0,
            lambda angle, _: angle[:, None, None],
        )
        for batch, length in ((5, 1), (1, 1), (2, 7))
        for ids in (False, True)
    },
}


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("case", PLACED)
def test_which_row_of_the_table_turns_which_position(native, everywhere, case, half, mode):
    shape, beside, ids_shape, offset, rows = PLACED[case]
    angle, cos, sin = tables(math.prod(beside), 8)
    x, ids = torch.randn(shape), torch.randint(0, 9, ids_shape) if ids_shape else None
    cos, sin = ((t if half else widened(t, mode)).reshape(*beside, -1) for t in (cos, sin))
    run = everywhere if half else native
    y = run(lambda x, s, c, i: ops.rotary_pos_embedding(x, s, c, i, offset, mode), x, sin, cos, ids)
    torch.testing.assert_close(y.double(), turned(x, rows(angle, ids), mode), rtol=1e-5, atol=1e-6)


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
    x, beside = torch.randn(shape), [1] * len(shape)
    beside[axis], beside[-1] = 5, 4
    y = everywhere(lambda x, s, c: ops.rotary_pos_embedding(x, s, c, None, offset, mode), x, sin, cos)
    expected = turned(x, angle[offset : offset + 5].reshape(beside), mode)
    torch.testing.assert_close(y.double(), expected, rtol=1e-5, atol=1e-6)
