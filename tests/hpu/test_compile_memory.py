"""Compiled functions whose arguments and results share memory, are written, or lie in memory in unusual ways."""

import pytest
import torch

from tests.hpu.support import compiled

pytestmark = pytest.mark.usefixtures("compiled_graphs")


def numbers(*shape):
    return torch.arange(float(torch.Size(shape).numel()), device="hpu").view(shape)


TABLES = {}


def write_views(x, y):
    x[1:].zero_()
    x.t()[0].add_(5)
    y.view(-1)[::2].mul_(3)
    return x.sum() + y.sum()


def use_constants(x):
    added = x + torch.tensor([1.0, 2.0, 3.0, 4.0], device="hpu")
    return added, torch.tensor(5.0), x * torch.tensor(2.0), x + TABLES["t"]


def change_layout(x):
    return x + 1, x.sum(), x.exp().contiguous(), torch.relu(x).transpose(0, -1)


def changed_table(k):
    TABLES.setdefault("t", numbers(4)).fill_(k)
    return (numbers(4) + k,)


def middles(k):
    """Three arguments that are not aligned as memory of their own are."""
    base = numbers(60) * (k + 1)
    return [base[1 + 17 * i : 17 + 17 * i].view(4, 4) for i in range(3)]


def sharing(k):
    """One argument twice, two that share memory in part, the same again, and two of their own."""
    square = numbers(2, 2)
    return [(square, square), (square, square.t()), (square.t(), square), (square, numbers(2, 2) + 1)][k]


def write_beside(a, b):
    a.add_(1)
    return b * 2


def overlapping(k):
    base = numbers(6)
    return base[:4], base[2:]


# A function, and its arguments in call k.
PROGRAMS = {
    "writes to views": (write_views, lambda k: (numbers(3, 2) + k, numbers(2, 4) + k)),
    "a write to an argument that is a view": (lambda v: v.mul_(3), lambda k: (numbers(10)[k + 1 : k + 4],)),
    "arguments in other places than at first": (lambda v: v + 1, lambda k: ((numbers(10) + k)[2 + k : 6 + k],)),
    "results that are arguments or views of them": (
        lambda x, y: (x, x.t(), y[1:], x.view(-1)[2:], y * 1, y),
        lambda k: (numbers(2, 3) + k, numbers(4) + k),
    ),
    "arguments that share memory": (lambda a, b: a * 10 + b, sharing),
    "a write beside one that shares the memory": (write_beside, overlapping),
    "constants": (use_constants, changed_table),
    "arguments in the middle of storages": (lambda a, b, c: (a * 2 + b, b @ c, c - a), middles),
    "transposed": (change_layout, lambda k: ((numbers(2, 3) + k).t(),)),
    "permuted": (change_layout, lambda k: ((numbers(2, 3, 4) + k).permute(2, 0, 1),)),
    "steps, then none": (change_layout, lambda k: (numbers(4, 6)[:, ::2] if k == 0 else numbers(4, 3) + k,)),
    "channels last": (change_layout, lambda k: ((numbers(1, 2, 2, 4) + k).to(memory_format=torch.channels_last),)),
    "empty": (change_layout, lambda k: (numbers(0, 3),)),
    "odd strides": (change_layout, lambda k: ((numbers(1, 1) + k).as_strided((1, 1), (7, 3)),)),
    "no dimensions": (change_layout, lambda k: (torch.tensor(k + 3.0, device="hpu"),)),
}


def places(results, arguments):
    """Which arguments' memory results lie in, and how far from their start."""

    def memory(tensor):
        return tensor.untyped_storage().data_ptr()

    return [
        (r, a, result is argument, result.data_ptr() - argument.data_ptr())
        for r, result in enumerate(results)
        for a, argument in enumerate(arguments)
        if result.numel() and memory(result) == memory(argument)
    ]


def bases(calls):
    """The whole memory of the arguments of calls."""
    return [a if a._base is None else a._base for arguments in calls for a in arguments]


@pytest.mark.parametrize("name", PROGRAMS)
def test_memory_is_as_in_eager_mode(name):
    """Values, strides, what lies in which argument's memory, and what a caller's writes to results change. What is
    around the arguments, and arguments of earlier calls, are left alone."""
    work, arguments = PROGRAMS[name]
    f = compiled(work)
    ours = []
    theirs = []
    for k in range(4):
        ours.append(arguments(k))
        theirs.append(arguments(k))
        actual, expected = f(*ours[-1]), work(*theirs[-1])
        if isinstance(actual, torch.Tensor):
            actual, expected = [actual], [expected]
        assert places(actual, ours[-1]) == places(expected, theirs[-1])
        for _ in range(2):
            torch.testing.assert_close(actual, expected, rtol=0, atol=0, check_stride=True)
            torch.testing.assert_close(bases(ours), bases(theirs), rtol=0, atol=0, check_stride=True)
            for result in (*actual, *expected):
                result.zero_()


def test_results_without_memory_or_contents():
    def work(x):
        return torch.empty(3, device="hpu"), x[:0] + 1, x.new_zeros(0, 4), torch.empty_like(x), None, 7, x.shape[0]

    f = compiled(work)
    x = torch.ones(5, device="hpu")
    kept = [f(x) for _ in range(3)]
    for outs in kept:
        outs[0].fill_(1)
        outs[3].fill_(2)
    assert len({o[0].data_ptr() for o in kept}) == len({o[3].data_ptr() for o in kept}) == 3
    assert [tuple(o.shape) for o in kept[2][:4]] == [(3,), (0,), (0, 4), (5,)]
    assert kept[2][4:] == (None, 7, 5)


def test_a_changed_activation_is_an_error():
    f = compiled(torch.exp)
    for _ in range(3):
        y = f(torch.ones(3, 3, device="hpu", requires_grad=True))
        with torch.no_grad():
            y.zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
