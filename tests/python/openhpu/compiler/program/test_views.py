"""Views rebuilt from geometry hold the elements that as_strided would show."""

import math
import random

import pytest
import torch

from openhpu.compiler.program.geometry import Geometry, contiguous_strides, flat
from openhpu.compiler.program.views import text, view_steps


def geometry(tensor):
    return Geometry(tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset())


def check(base, wanted):
    """Rebuild `wanted` (a view) from `base` (a tensor over the same storage); returns the steps' names."""
    steps = view_steps(geometry(base), geometry(wanted))
    view = eval(text("base", steps), {"base": base, "torch": torch})
    assert view.shape == wanted.shape
    assert view.dtype == wanted.dtype
    assert view.equal(wanted)
    if wanted.numel():
        assert view.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
        assert view.storage_offset() == wanted.storage_offset()
        for n, got, expected in zip(wanted.shape, view.stride(), wanted.stride(), strict=True):
            assert n == 1 or got == expected
    return [step.name for step in steps]


def random_view(tensor, rng):
    """Some view of the tensor, by operators that scripts use."""
    for _ in range(rng.randrange(1, 5)):
        dims = tensor.dim()
        kind = rng.choice(
            ["permute", "slice", "select", "unsqueeze", "expand", "view", "squeeze", "diagonal", "unfold"]
        )
        if kind == "permute":
            tensor = tensor.permute(rng.sample(range(dims), dims))
        elif kind == "slice" and dims:
            dim = rng.randrange(dims)
            start = rng.randrange(tensor.shape[dim] + 1)
            stop = rng.randrange(start, tensor.shape[dim] + 1)
            tensor = tensor[(slice(None),) * dim + (slice(start, stop, rng.choice([1, 1, 1, 2, 3])),)]
        elif kind == "select" and dims and 0 not in tensor.shape:
            dim = rng.randrange(dims)
            tensor = tensor.select(dim, rng.randrange(tensor.shape[dim]))
        elif kind == "unsqueeze":
            tensor = tensor.unsqueeze(rng.randrange(dims + 1))
        elif kind == "squeeze":
            tensor = tensor.squeeze()
        elif kind == "expand" and dims:
            sizes = [rng.choice([1, 3]) if n == 1 else n for n in tensor.shape]
            tensor = tensor.expand(rng.choice([[], [2]]) + sizes)
        elif kind == "view" and tensor.is_contiguous() and tensor.numel():
            divisor = rng.choice([d for d in range(1, tensor.numel() + 1) if tensor.numel() % d == 0])
            tensor = tensor.view(divisor, -1)
        elif kind == "diagonal" and dims == 2 and rng.random() < 0.3:
            tensor = tensor.diagonal()
        elif kind == "unfold" and dims and tensor.shape[-1] >= 3 and rng.random() < 0.2:
            tensor = tensor.unfold(-1, 3, rng.choice([1, 2, 3]))
    return tensor


@pytest.mark.parametrize("seed", range(8))
def test_any_view_of_any_dense_base(seed):
    rng = random.Random(seed)
    for _ in range(300):
        sizes = [rng.choice([1, 2, 3, 4, 6, 8]) for _ in range(rng.randrange(5))]
        storage = torch.arange(rng.randrange(3) + math.prod(sizes))
        base = storage[storage.numel() - math.prod(sizes) :].view(sizes)
        base = base.permute(rng.sample(range(len(sizes)), len(sizes)))
        check(base, random_view(base, rng))


@pytest.mark.parametrize("seed", range(4))
def test_any_geometry_at_all(seed):
    rng = random.Random(seed)
    base = torch.arange(48).view(4, 12)
    for _ in range(500):
        sizes = [rng.randrange(1, 5) for _ in range(rng.randrange(4))]
        strides = [rng.choice([0, 1, 2, 3, 4, 6, 12]) for _ in sizes]
        last = sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
        if last < 48:
            check(base, torch.as_strided(base, sizes, strides, rng.randrange(48 - last)))


def test_views_of_views_with_gaps():
    base = torch.arange(60).view(3, 4, 5)[:, :3, 1:4]
    assert "as_strided" not in check(base, base[1].t())
    check(base, base[:, 1:, ::2].permute(2, 0, 1))


# What scripts do, and how it has to look: none of it may be as_strided.
@pytest.mark.parametrize(
    "make, expected",
    [
        (lambda x: x, []),
        (lambda x: x.view(4, 96), ["view"]),
        (lambda x: x.flatten(), ["view"]),
        (lambda x: x.permute(2, 0, 1), ["permute"]),
        (lambda x: x.transpose(1, 2), ["transpose"]),
        (lambda x: x[2], ["index"]),
        (lambda x: x[..., 3], ["index"]),
        (lambda x: x[:, 1:3, ::2], ["index"]),
        (lambda x: x.unsqueeze(1), ["view"]),
        (lambda x: x[:, :1].expand(-1, 7, -1), ["index", "expand"]),
        (lambda x: x[0, 0].expand(5, 16), ["index", "expand"]),
        (lambda x: x.chunk(2, -1)[1].view(4, 6, 4, 2).transpose(1, 2), ["view", "index", "transpose"]),
        (lambda x: x.view(24, 16).t(), ["view", "t"]),
        (lambda x: x[1:3].flatten(), ["view", "index"]),
        (lambda x: x.view(-1)[5:37].view(4, 8), ["view", "index", "view"]),
        (lambda x: x.diagonal(0, 1, 2), ["as_strided"]),
    ],
)
def test_common_views_use_the_operator_that_was_written(make, expected):
    base = torch.arange(384).view(4, 6, 16)
    assert check(base, make(base)) == expected


def test_channels_last_base():
    base = torch.arange(2 * 3 * 4 * 5).view(2, 4, 5, 3).permute(0, 3, 1, 2)
    assert check(base, base.permute(0, 2, 3, 1)) == ["permute"]
    assert check(base, base.permute(0, 2, 3, 1).reshape(-1)) == ["permute", "view"]
    assert check(base, base[:, 1]) == ["index"]


def test_other_dtypes():
    floats = torch.randn(4, 6)
    assert check(floats, floats.view(torch.int32)) == ["view"]
    assert check(floats, floats.view(torch.int32).t()[1:3]) == ["view", "index", "t"]
    assert "as_strided" not in check(floats, floats.view(torch.complex64).t())
    assert "as_strided" not in check(floats, floats.view(torch.int16)[:, 3:])
    pairs = torch.randn(3, 2, dtype=torch.complex64)
    assert "as_strided" not in check(pairs, torch.view_as_real(pairs))
    tail = torch.randn(8)[1:]
    check(tail, tail[1:].view(torch.float64))


def test_dtype_that_straddles_elements_is_refused():
    assert view_steps(flat(torch.int64, 8, 64), flat(torch.float32, 12, 20))
    with pytest.raises(ValueError, match="int64"):
        view_steps(flat(torch.float32, 4, 8), flat(torch.int64, 8, 16))
    with pytest.raises(ValueError, match="gaps"):
        view_steps(Geometry(torch.float32, (4,), (2,), 0), flat(torch.int64, 0, 8))


def test_nothing_in_it():
    base = torch.arange(6).view(2, 3)
    assert check(base, base[:, :0]) == ["new_empty"]
    assert check(base, base[:, :0].view(torch.float64)) == ["new_empty", "to"]
    nothing = torch.empty(0, 3)
    assert check(nothing, nothing.t()) == ["new_empty"]


def test_geometry():
    assert geometry(torch.empty(2, 3).t()).is_dense
    assert not geometry(torch.empty(2, 3)[:, :2]).is_dense
    assert not geometry(torch.empty(2, 1).expand(2, 3)).is_dense
    assert geometry(torch.empty(())).is_dense
    assert geometry(torch.empty(4, 3)[1:, 1:]).span == (16, 48)
    assert contiguous_strides((2, 0, 3)) == torch.empty(2, 0, 3).stride()
