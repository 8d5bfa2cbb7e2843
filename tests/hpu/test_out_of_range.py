"""Indices out of range, as on a Gaudi: reading them gives zeros, writing to them changes nothing (docs/indices.md).

Operators, and what is expected of them, are in tests/indices.py.
"""

import pytest
import torch
import torch.nn.functional as F

from tests import indices
from tests.hpu.support import line, to_cpu, to_hpu, watched_indices
from tests.indices import EVERY, gather, index, index_copy, index_put, index_select, operands, padded, scatter

# Also those that come when the device is waited for after a test: there is one for each operator and line.
pytestmark = pytest.mark.filterwarnings("ignore")
MANY = [index_select, gather, index, index_copy, indices.index_add, *indices.PUTS, scatter, indices.scatter_add]


def agree(function, *arguments):
    expected = padded(function, wraps=function.__name__ in indices.WRAPS)(*arguments)
    actual = function(*to_hpu(arguments))
    torch.testing.assert_close(to_cpu(actual), expected, rtol=0, atol=0, equal_nan=True)
    return actual


def floats(arguments, change):
    """The arguments, of which the tensors of floats are changed."""
    return [change(a) if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in arguments]


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("function", EVERY, ids=lambda f: f.__name__)
def test_reads_give_zeros_and_writes_are_dropped(function, dim):
    for _ in range(3):  # learned, queued, and once more
        agree(function, *operands(function, dim))


@pytest.mark.parametrize("function", EVERY, ids=lambda f: f.__name__)
def test_extremes_of_64_bits_and_what_wraps_in_32(function):
    for value in indices.BAD:
        agree(function, *operands(function, 1, bad=(value, 9)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.int64, torch.bool])
@pytest.mark.parametrize("function", [index_select, gather, index, index_copy, index_put, scatter])
def test_every_dtype(function, dtype):
    agree(function, *operands(function, 1, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize("function", [index_select, index, index_put])
def test_eight_bit_floats(function, dtype):
    small = floats(operands(function, 1), lambda a: a.to(dtype))
    expected = padded(function, wraps=function.__name__ in indices.WRAPS)(*floats(small, torch.Tensor.float))
    assert to_cpu(function(*to_hpu(small))).float().equal(expected)


@pytest.mark.parametrize("function", [index_select, index, index_copy, indices.index_add, index_put])
def test_32_bit_indices(function):
    agree(function, *operands(function, 1, index_dtype=torch.int32))


@pytest.mark.parametrize("function", MANY)
def test_an_empty_dimension(function):
    x, *others = operands(function, 1)
    agree(function, x[:, :0], *others)


@pytest.mark.parametrize("function", EVERY, ids=lambda f: f.__name__)
def test_views(function):
    x, dim, index, *source = operands(function, 1)
    base, wide = torch.zeros(6, 4, 11), torch.full((*index.shape, 2), 77)
    wide[..., 1] = index
    strided = base.permute(1, 2, 0)[:, 1::2]
    strided.copy_(x)
    agree(function, strided, dim, wide[..., 1], *(s.mT.contiguous().mT for s in source))


def test_views_written_in_place():
    base = torch.arange(48.0).view(4, 12)
    index = torch.tensor([[0, -1, 9, 2]] * 2)
    source = -torch.ones(2, 4)
    on_hpu = base.to("hpu")
    on_hpu[::2, 1::3].scatter_(1, index.to("hpu"), source.to("hpu"))
    base[::2, 1::3] = padded(scatter)(base[::2, 1::3], 1, index, source)
    assert on_hpu.cpu().equal(base)
    on_hpu.t()[2::2].index_add_(0, index[0].to("hpu"), torch.ones(4, 4, device="hpu"))
    base.t()[2::2] = padded(indices.index_add)(base.t()[2::2], 0, index[0], torch.ones(4, 4))
    assert on_hpu.cpu().equal(base)


def test_0_dim():
    x, one, bad = torch.tensor(2.0, device="hpu"), torch.tensor([0], device="hpu"), torch.tensor([3], device="hpu")
    row = torch.arange(3.0, device="hpu")
    for result, expected in (
        (x.index_select(0, one), 2),
        (x.index_select(0, bad), 0),
        (x.gather(0, bad[0]), 0),
        (x.index_copy(0, bad, x + 1), 2),
        (x.index_add(0, bad, x + 1), 2),
        (x.scatter(0, bad[0], x + 1), 2),
        (row.index_select(0, bad[0]), [0]),
        (torch.ops.aten.index.Tensor(row, [bad[0]]), 0),
        (row.index_put((bad[0],), x), [0, 1, 2]),
        (row.index_copy(0, bad[0], x), [0, 1, 2]),
    ):
        assert result.tolist() == expected


def test_out_is_filled_and_keeps_its_memory():
    x, index = torch.ones(3, 2, device="hpu"), torch.tensor([-1, 1, 4], device="hpu")
    out = torch.full((3, 2), 9.0, device="hpu")
    for _ in range(2):
        assert torch.index_select(x, 0, index, out=out) is out
        assert out.tolist() == [[0, 0], [1, 1], [0, 0]]
    target = torch.zeros(3, 2, device="hpu")
    torch.scatter(x, 0, index[:, None], 5.0, out=target)
    assert target.tolist() == [[1, 1], [5, 1], [1, 1]]


def test_advanced_indices_of_several_dimensions():
    x = torch.arange(60.0).view(3, 4, 5)
    first, last = torch.tensor([[0, 3], [-3, -4]]), torch.tensor([4, -5])
    on_hpu, first_hpu, last_hpu = to_hpu((x, first, last))
    expected = x[torch.tensor([[0, 0], [-3, 0]]), :, last].clone()  # apart, so that their dimension comes first
    expected[0, 1] = expected[1, 1] = 0
    assert on_hpu[first_hpu, :, last_hpu].cpu().equal(expected)
    mask = torch.tensor([[True, False, True, False]] * 3)
    third = torch.tensor([9, 0, 1, 2, 3, -6])
    expected = x[mask, third.clamp(0, 4)].clone()
    expected[0] = expected[5] = 0
    assert on_hpu[mask.to("hpu"), third.to("hpu")].cpu().equal(expected)
    values = -torch.arange(8.0).view(2, 2, 2)
    part = x[:, :2].to("hpu").contiguous()
    part[first_hpu, :, last_hpu] = values.to("hpu")
    x[0, :2, 4] = values[0, 0]
    x[-3, :2, 4] = values[1, 0]
    assert part.cpu().equal(x[:, :2])


def test_negative_indices_of_advanced_indexing_keep_their_meaning():
    x = torch.arange(4.0, device="hpu")
    index = torch.tensor([-1, -4, -5, 3, 4], device="hpu")
    assert x[index].tolist() == [3, 0, 0, 3, 0]
    x[index] = torch.tensor([7.0, 8, 9, 7, 9], device="hpu")
    assert x.tolist() == [8, 1, 2, 7]
    assert torch.take(x, index[:2]).tolist() == [7, 8]
    x.index_fill_(0, index, 1)
    assert x.tolist() == [1, 1, 2, 1]


def test_one_hot_gives_a_row_of_zeros():
    index = torch.tensor([[1, -1], [3, 0]], device="hpu")
    assert F.one_hot(index, 3).tolist() == [[[0, 1, 0], [0, 0, 0]], [[0, 0, 0], [1, 0, 0]]]
    assert F.one_hot(index).tolist() == [[[0, 1, 0, 0], [0, 0, 0, 0]], [[0, 0, 0, 1], [1, 0, 0, 0]]]


@pytest.mark.parametrize("scale", [False, True])
def test_embedding_and_its_gradient(scale):
    weight = torch.arange(10.0).view(5, 2)
    index = torch.tensor([[1, -1, 4], [7, 1, 0]])
    on_hpu = weight.to("hpu").requires_grad_()
    result = F.embedding(index.to("hpu"), on_hpu, scale_grad_by_freq=scale)
    assert result.detach().cpu().equal(padded(index_select)(weight, 0, index.flatten()).view(2, 3, 2))
    result.backward(torch.ones_like(result))
    assert on_hpu.grad[:, 0].tolist() == [1, 1 if scale else 2, 0, 0, 1]


@pytest.mark.parametrize("function", MANY, ids=lambda f: f.__name__)
def test_gradients_of_such_rows_are_dropped(function):
    arguments = operands(function, 1)
    results = []
    on_cpu = padded(function, function.__name__ in indices.WRAPS)
    for call, given in ((on_cpu, arguments), (function, to_hpu(arguments))):
        given = floats(given, lambda a: a.detach().clone().requires_grad_())
        result = call(*given)
        (result * torch.arange(result.numel(), device=result.device).view(result.shape)).sum().backward()
        results.append([a.grad.cpu() for a in given if isinstance(a, torch.Tensor) and a.requires_grad])
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=0)


def test_what_stays_an_error():
    x, index = torch.randn(3, 5, device="hpu"), torch.tensor([0, 7, 2], device="hpu")
    for call in (
        lambda: F.cross_entropy(x, index),
        lambda: F.nll_loss(x, index),
        lambda: torch.take(x, index + 10),
        lambda: x.clone().put_(index + 10, x[0, :3]),
        lambda: F.embedding_bag(index[None], x),
        lambda: x.index_select(0, index[None]),  # wrong shapes, as before
        lambda: x.gather(0, index.expand(9, 9, 3)),
        lambda: x.scatter(0, index.expand(2, 3), torch.ones(1, 3, device="hpu")),
        lambda: x.index_copy(0, index, torch.ones(2, 5, device="hpu")),
        lambda: x.index_put((index,), torch.ones(4, 4, device="hpu")),
        lambda: x.index_select(3, index),
    ):
        with pytest.raises((IndexError, RuntimeError)):
            call()
            torch.hpu.synchronize()
    assert x.add(0).shape == (3, 5)


def test_they_are_counted_and_reported_with_their_line():
    x, index = torch.ones(5, 2, device="hpu"), torch.tensor([-1, 7, 1, -1, -3], device="hpu")
    for _ in range(2):
        x.index_select(0, index)
    with watched_indices() as watched:
        for _ in range(3):
            x.index_select(0, index)
    number = line() - 1
    assert watched.counted == 12
    assert sum(e.params["indices"] for e in watched.events) == 12
    assert sum(e.params["padding"] for e in watched.events) == 6
    assert {(e.params["op"], *e.site) for e in watched.events} == {("aten::index_select", __file__, number)}
    (warning,) = watched.warnings
    assert f'"{__file__}", line {number}' in warning
    assert "aten::index_select: index 7 is out of range for a dimension of size 5" in warning
    assert "OPENHPU_OUT_OF_RANGE=error" in warning


def test_indices_in_range_are_not_counted_and_sizes_that_are_new_each_time_count_once():
    x, index = torch.ones(5, 2, device="hpu"), torch.tensor([0, 4], device="hpu")
    with watched_indices() as watched:
        x.index_select(0, index)
        x[index - 5] = 1
        x[:, :0].index_select(0, index)  # rehearsed on zeros, perhaps
    assert watched.counted == 0
    assert not watched.events
    with watched_indices() as watched:
        for n in range(1, 6):
            torch.ones(0, n, device="hpu").index_select(0, torch.zeros(n, dtype=torch.int64, device="hpu"))
    assert watched.counted == 15


def test_a_large_index_is_found_wherever_it_is():
    x = torch.arange(100.0, device="hpu")
    index = torch.zeros(300_000, dtype=torch.int64)
    for at in (0, 65_536, 299_999):
        index[at] = 100
        assert x.index_select(0, index.to("hpu") + 0).sum().item() == 0
        result = (x + 1).index_select(0, index.to("hpu"))
        assert result[at].item() == 0
        assert result.sum().item() == 299_999
        index[at] = 0


@pytest.mark.parametrize("function", [gather, scatter, indices.scatter_add])
def test_expanded_indices(function):
    x, dim, index, *source = operands(function, 1)
    part = index[:1]
    expected = padded(function)(x, dim, part.expand_as(index), *source)
    on_hpu = to_hpu((x, dim, part, *source))
    assert function(*on_hpu[:2], on_hpu[2].expand_as(index), *on_hpu[3:]).cpu().equal(expected)
