"""Rotary position embeddings: where the tables of cosines and sines lie, how wide and how long they are."""

import torch

from openhpu.interface.hpex.rotary import (
    RotaryPosEmbeddingHelperV1,
    RotaryPosEmbeddingHelperV2,
    RotaryPosEmbeddingHelperV3,
)
from tests.hpu.gaudi_ops.programs import BF16, F32, Program, generator, ops

# Of the data, of the tables beside their last dimension, the offset, and the rows as they broadcast to the data.
PLACES = {
    "[positions, D]": ((2, 3, 5, 8), (9,), 2, lambda t: t[2:7]),
    "[positions, D], as long": ((2, 3, 5, 8), (5,), 0, lambda t: t),
    "[1, 1, positions, D]": ((2, 3, 5, 8), (1, 1, 9), 1, lambda t: t[:, :, 1:6]),
    "[1, positions, 1, D]": ((2, 5, 3, 8), (1, 9, 1), 3, lambda t: t[:, 3:8]),
    "[positions, 1, D], of three dimensions": ((5, 3, 8), (9, 1), 2, lambda t: t[2:7]),
    "[positions, 1, D], length first": ((5, 2, 3, 8), (5, 1), 0, lambda t: t[:, None]),
    "[positions, 1, D], length second": ((2, 5, 3, 8), (7, 1), 2, lambda t: t[2:][None]),
    "[batch, 1, 1, D]": ((4, 3, 1, 8), (4, 1, 1), 0, lambda t: t),
    "[batch, positions, D]": ((2, 3, 5, 8), (2, 5), 0, lambda t: t[:, None]),
    "one position": ((2, 3, 1, 8), (9,), 4, lambda t: t[4:5]),
}


def rotated(x, cos, sin, mode):
    """As models write it, each step in the dtype of `x`."""
    first, second = x.chunk(2, -1) if mode == 0 else (x[..., ::2], x[..., 1::2])
    turned = torch.cat((-second, first), -1) if mode == 0 else torch.stack((-second, first), -1).flatten(-2)
    return x * cos.to(x.dtype) + turned * sin.to(x.dtype)


def widened(t, mode):
    return torch.cat((t, t), -1) if mode == 0 else t.repeat_interleave(2, -1)


def with_gradient(function):
    """The result of a function of x and others, and the gradient of x for the result itself as the gradient."""

    def run(x, *others):
        x = x.detach().requires_grad_()
        y = function(x, *others)
        return y.detach(), torch.autograd.grad(y, x, y.detach())[0]

    return run


def rotations():
    programs = []
    for name, (shape, beside, offset, rows) in PLACES.items():
        for mode in (0, 1):
            for dtype in (F32, BF16):
                for half in (False, True):
                    random = generator(name)
                    x = torch.randn(shape, generator=random).to(dtype)
                    angle = torch.rand(*beside, 4, generator=random) * 6
                    tables = [t if half else widened(t, mode) for t in (angle.cos(), angle.sin())]
                    programs.append(
                        Program(
                            f"{name}, mode {mode}, {dtype}, {'half' if half else 'whole'} width",
                            with_gradient(
                                lambda x, c, s, o=offset, m=mode: ops.rotary_pos_embedding(x, s, c, None, o, m)
                            ),
                            (x, *tables),
                            with_gradient(
                                lambda x, c, s, rows=rows, mode=mode, half=half: rotated(
                                    x, *(widened(rows(t), mode) if half else rows(t) for t in (c, s)), mode
                                )
                            ),
                            1e-6 if dtype is F32 else None,
                        )
                    )
    return programs


def of_chatglm(x, cache):
    """x: [length, batch, heads, D]; cache: [positions, batch or 1, n, 2]."""
    pairs = cache.shape[-2]
    moving, rest = x[..., : 2 * pairs].unflatten(-1, (pairs, 2)), x[..., 2 * pairs :]
    cache = cache[: x.shape[0]].reshape(x.shape[0], -1, 1, pairs, 2).to(x.dtype)
    a, b = moving.unbind(-1)
    cos, sin = cache.unbind(-1)
    turned = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
    return torch.cat((turned, rest), -1)


def rotations_of_chatglm():
    programs = []
    forms = {
        "[positions, batch, n, 2]": (9, 2, 2, 2),
        "[positions, 1, n, 2]": (9, 1, 2, 2),
        "as long": (5, 2, 2, 2),
        "whole width": (9, 1, 4, 2),
        "[positions, batch, 1, n, 2]": (9, 2, 1, 2, 2),
        "[positions, n, 2]": (9, 2, 2),
    }
    for name, shape in forms.items():
        for dtype in (F32, BF16):
            for cache_dtype in {dtype, F32}:
                random = generator(name)
                x = torch.randn(5, 2, 3, 8, generator=random).to(dtype)
                angle = torch.rand(shape[:-1], generator=random) * 6
                cache = torch.stack((angle.cos(), angle.sin()), -1).to(cache_dtype)
                programs.append(
                    Program(
                        f"{name}, {dtype}, a cache of {cache_dtype}",
                        with_gradient(RotaryPosEmbeddingHelperV3.apply),
                        (x, cache),
                        with_gradient(of_chatglm),
                        1e-6 if dtype is F32 else None,
                    )
                )
    return programs


def helpers():
    random = generator("helpers")
    x = torch.randn(2, 3, 5, 8, generator=random)
    angle = torch.rand(9, 4, generator=random) * 6
    cos, sin = (widened(t, 0) for t in (angle.cos(), angle.sin()))
    ids = torch.randint(0, 9, (2, 5), generator=random)
    programs = []
    for dtype in (F32, BF16):
        near = 1e-6 if dtype is F32 else None
        for name, layout in {
            "": lambda t: t,
            ", a view": lambda t: t.transpose(1, 2).contiguous().transpose(1, 2),
        }.items():
            given = layout(x).to(dtype)
            programs += [
                Program(
                    f"first version, {dtype}{name}",
                    with_gradient(lambda x, c, s: RotaryPosEmbeddingHelperV1.apply(x, c, s, 3)),
                    (given, cos, sin),
                    with_gradient(lambda x, c, s: rotated(x, c[3:8], s[3:8], 0)),
                    near,
                ),
                Program(
                    f"second version, {dtype}{name}",
                    with_gradient(RotaryPosEmbeddingHelperV2.apply),
                    (given, cos, sin, ids),
                    with_gradient(lambda x, c, s, i: rotated(x, c[i][:, None], s[i][:, None], 0)),
                    near,
                ),
                Program(
                    f"its backward operator, {dtype}{name}",
                    lambda g, c, s: ops.rotary_pos_embedding_backward(g, s, c, None, 3, 0),
                    (given, cos, sin),
                    lambda g, c, s: backward(g, c[3:8], s[3:8]),
                    near or 2e-2,
                ),
            ]
    return programs


def backward(grad, cos, sin):
    x = torch.zeros_like(grad).requires_grad_()
    return torch.autograd.grad(rotated(x, cos, sin, 0), x, grad)[0]


FAMILIES = {
    "rotations": rotations,
    "rotations of chatglm": rotations_of_chatglm,
    "rotations by their helpers": helpers,
}
