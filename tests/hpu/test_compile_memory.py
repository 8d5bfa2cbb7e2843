"""Compiled functions whose arguments and results share memory, are written, or lie in memory in unusual ways."""

import pytest
import torch

from tests.hpu.support import agree, compiled, to_cpu, to_hpu

pytestmark = pytest.mark.usefixtures("compiled_graphs")


def test_views_of_inputs_are_written():
    def work(x, y):
        x[1:].zero_()
        x.t()[0].add_(5)
        y.view(-1)[::2].mul_(3)
        return x.sum() + y.sum()

    f = compiled(work)
    for k in range(3):
        agree(lambda x, y: (f if x.is_hpu else work)(x, y), torch.arange(6.0).view(3, 2) + k, torch.ones(2, 4) + k)


def test_an_input_that_is_a_view_is_written():
    f = compiled(lambda v: v.mul_(3))
    base = torch.arange(10.0, device="hpu")
    expected = base.cpu()
    for part in (slice(1, 4), slice(3, 6), slice(5, 8), slice(0, 3)):
        returned = f(base[part])
        expected[part] *= 3
        assert base.tolist() == expected.tolist()
        assert returned.data_ptr() == base[part].data_ptr()


def test_a_tensor_of_the_first_call_is_left_alone():
    """Later calls copy what lies badly, but not over the arguments of the first."""
    f = compiled(lambda v: v + 1)
    first = torch.arange(10.0, device="hpu")
    f(first[2:6])
    for k in range(3):
        other = torch.full((10,), float(k), device="hpu")
        assert f(other[3:7]).tolist() == [k + 1.0] * 4
    assert first.tolist() == list(range(10))


def test_results_that_are_arguments_or_views_of_them():
    def work(x, y):
        return x, x.t(), y[1:], x.view(-1)[2:], y * 1, y

    f = compiled(work)
    for k in range(3):
        x, y = torch.full((2, 3), float(k), device="hpu"), torch.arange(4.0, device="hpu") + k
        outs = f(x, y)
        torch.testing.assert_close(outs, work(x, y), rtol=0, atol=0, check_stride=True)
        assert [o.data_ptr() for o in outs[:4]] == [o.data_ptr() for o in work(x, y)[:4]]
        assert outs[0] is x and outs[5] is y
        assert outs[4].data_ptr() != y.data_ptr()
        outs[1].zero_()
        assert not x.any()


def test_arguments_that_share_memory():
    f = compiled(lambda a, b: a * 10 + b)
    base = torch.arange(4.0, device="hpu")
    assert f(base, base).tolist() == [0, 11, 22, 33]
    assert f(base, base + 1).tolist() == [1, 12, 23, 34]
    square = torch.arange(4.0, device="hpu").view(2, 2)
    for first, second in ((square, square.t()), (square, square.t().clone()), (square.t(), square)):
        torch.testing.assert_close(f(first, second), first * 10 + second)
    a, b = torch.arange(4.0, device="hpu"), torch.zeros(4, device="hpu")
    assert f(a, b).tolist() == [0, 10, 20, 30]
    assert f(b, a).tolist() == [0, 1, 2, 3]


def test_one_written_and_one_that_shares_its_memory():
    def work(a, b):
        a.add_(1)
        return b * 2

    f = compiled(work)
    for _ in range(3):
        base = torch.arange(6.0, device="hpu")
        assert f(base[:4], base[2:]).tolist() == [6.0, 8.0, 8.0, 10.0]
        assert base.tolist() == [1.0, 2.0, 3.0, 4.0, 4.0, 5.0]


@pytest.mark.parametrize(
    "x",
    [
        torch.arange(6.0).view(2, 3).t(),
        torch.arange(24.0).view(2, 3, 4).permute(2, 0, 1),
        torch.arange(24.0).view(4, 6)[:, ::2],
        torch.arange(16.0).view(1, 2, 2, 4).to(memory_format=torch.channels_last),
        torch.empty(0, 3),
        torch.ones(1, 1).as_strided((1, 1), (7, 3)),
        torch.tensor(3.0),
    ],
    ids=["transposed", "permuted", "steps", "channels_last", "empty", "odd_strides", "scalar"],
)
def test_layouts(x):
    def work(x):
        return x + 1, x.sum(), x.exp().contiguous(), torch.relu(x).transpose(0, -1) if x.dim() else x * 2

    f = compiled(work)
    for k in range(3):
        given = to_hpu(x)
        given = given if k == 0 or x.dim() == 3 else given.mul(k)
        torch.testing.assert_close(f(given), work(given), check_stride=True)
    expected = work(x)
    torch.testing.assert_close(to_cpu(f(to_hpu(x))), expected)


def test_results_without_memory_or_contents():
    def work(x):
        return torch.empty(3, device="hpu"), x[:0] + 1, x.new_zeros(0, 4), torch.empty_like(x), None, 7, x.shape[0]

    f = compiled(work)
    x = torch.ones(5, device="hpu")
    kept = [f(x) for _ in range(3)]
    for outs in kept:
        outs[0].fill_(1), outs[3].fill_(2)
    assert len({o[0].data_ptr() for o in kept}) == len({o[3].data_ptr() for o in kept}) == 3
    assert [tuple(o.shape) for o in kept[2][:4]] == [(3,), (0,), (0, 4), (5,)]
    assert kept[2][4:] == (None, 7, 5)


def test_constants():
    table = torch.arange(4.0, device="hpu") * 10

    def work(x):
        return x + torch.tensor([1.0, 2.0, 3.0, 4.0], device="hpu"), torch.tensor(5.0), x * torch.tensor(2.0), x + table

    f = compiled(work)
    for k in range(3):
        x = torch.full((4,), float(k), device="hpu")
        outs = f(x)
        assert to_cpu(outs[0]).tolist() == [k + 1.0, k + 2.0, k + 3.0, k + 4.0]
        assert outs[1].device.type == "cpu" and outs[1].item() == 5
        outs[1].zero_()
        assert to_cpu(outs[2]).tolist() == [2.0 * k] * 4
        assert to_cpu(outs[3]).tolist() == [k + 10.0 * j for j in range(4)]
        table.add_(1)
        assert f(x)[3].tolist() == [k + 10.0 * j + 1 for j in range(4)]
        table.sub_(1)


def test_a_changed_activation_is_an_error():
    f = compiled(torch.exp)
    for _ in range(3):
        y = f(torch.ones(3, 3, device="hpu", requires_grad=True))
        with torch.no_grad():
            y.zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_arguments_in_the_middle_of_storages():
    """Arguments that are not aligned as memory of their own are copied in each call; the copies live side by side."""

    def work(a, b, c):
        return a * 2 + b, b @ c, c - a

    f = compiled(work)
    for k in range(4):
        base = torch.arange(60.0, device="hpu") * (k + 1)
        given = [base[1 + 17 * i : 17 + 17 * i].view(4, 4) for i in range(3)]
        torch.testing.assert_close(f(*given), work(*given), rtol=0, atol=0)
