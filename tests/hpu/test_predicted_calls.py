"""Operators of new sizes whose results PyTorch describes without a run: as the CPU's kernel would have left them."""

import pytest
import torch
import torch.nn.functional as F


aten = torch.ops.aten


def _rand(*sizes):
    return torch.rand(sizes) + 0.5


def _spread(*sizes):
    return _rand(*sizes[::-1]).permute(*range(len(sizes))[::-1])


def _part(*sizes):
    return _rand(*(2 * s for s in sizes))[tuple(slice(1, 1 + s) for s in sizes)]


# By operator: arguments for a size n, on tensors that `make(*sizes)` returns.
CALLS = {
    aten.mm.default: lambda make, n: (make(n, 3), make(3, 2 * n)),
    aten.addmm.default: lambda make, n: (make(2 * n), make(n, 3), make(3, 2 * n)),
    aten.bmm.default: lambda make, n: (make(2, n, 3), make(2, 3, n)),
    aten.baddbmm.default: lambda make, n: (make(2, n, n), make(2, n, 3), make(2, 3, n)),
    aten.add.Tensor: lambda make, n: (make(n, 4), make(3, 1, 1)),
    aten.sub.Tensor: lambda make, n: (make(n, 4, 3), make(n, 4, 3)),
    aten.mul.Tensor: lambda make, n: (make(n, 4, 3), torch.tensor(2.0)),
    aten.div.Tensor: lambda make, n: (make(n, 4, 3), make(n, 1, 3)),
    aten._softmax.default: lambda make, n: (make(n, 4, 3), 1, False),
    aten._log_softmax.default: lambda make, n: (make(n, 5), -1, False),
    aten._softmax_backward_data.default: lambda make, n: (make(n, 5), make(n, 5), 1, torch.float32),
    aten._log_softmax_backward_data.default: lambda make, n: (make(n, 5), make(n, 5), 1, torch.float32),
    aten.gelu.default: lambda make, n: (make(n, 4, 3),),
    aten.gelu_backward.default: lambda make, n: (make(n, 4, 3), make(n, 4, 3)),
    aten.silu.default: lambda make, n: (make(n, 4, 3),),
    aten.threshold_backward.default: lambda make, n: (make(n, 4), make(n, 4), 0),
    aten.tanh_backward.default: lambda make, n: (make(n, 4), make(n, 4)),
    aten.sigmoid_backward.default: lambda make, n: (make(n, 4), make(n, 4)),
    aten.sum.dim_IntList: lambda make, n: (make(n, 4, 3), [0, 2]),
    aten.mean.dim: lambda make, n: (make(n, 4, 3), [1], True),
    **{op.default: lambda make, n: (make(n, 4, 3),) for op in (aten.exp, aten.log, aten.sqrt, aten.rsqrt)},
    **{op.default: lambda make, n: (make(n, 4, 3),) for op in (aten.sigmoid, aten.tanh)},
}


def moved(values):
    """On the device, lying there as here."""
    return [
        torch.empty_strided(v.shape, v.stride(), device="hpu").copy_(v)
        if isinstance(v, torch.Tensor) and v.dim()
        else v
        for v in values
    ]


@pytest.mark.parametrize("make", [_rand, _spread, _part], ids=["dense", "permuted", "part"])
@pytest.mark.parametrize("op", CALLS, ids=str)
def test_results_are_those_of_a_run(op, make, counted):
    op(*moved(CALLS[op](make, 2)))  # this is known then
    torch.hpu.synchronize()
    for n in (5, 7, 1, 0):
        arguments = CALLS[op](make, n)
        expected = op(*arguments)
        given = moved(arguments)
        for one, other in zip(given, arguments, strict=True):
            assert not isinstance(one, torch.Tensor) or one.stride() == other.stride()
        with counted() as work:
            actual = op(*given)
            torch.hpu.synchronize()
        assert work["ops_predicted"] == 1 and work["ops_waited"] == work["ops_rehearsed"] == 0, work
        assert work["outputs_copied"] == 0
        assert (actual.shape, actual.stride(), actual.dtype) == (expected.shape, expected.stride(), expected.dtype)
        torch.testing.assert_close(actual.cpu(), expected)
        with counted() as work:
            op(*given)
        assert work["ops_predicted"] == 0  # known now


def test_dtypes_that_are_mixed_are_left_to_a_run(counted):
    x = torch.rand(2, 3, device="hpu")
    x + x.double()
    sizes = torch.rand(4, 3, device="hpu")
    with counted() as work:
        y = sizes + sizes.double()
        torch.hpu.synchronize()
    assert work["ops_predicted"] == 0 and y.dtype == torch.float64
    torch.arange(4, device="hpu") * 0.5
    counts = torch.arange(8, device="hpu")
    with counted() as work:
        z = counts * 0.5
    assert work["ops_predicted"] == 0 and z.dtype == torch.float32 and z.tolist() == [k / 2 for k in range(8)]


def test_an_error_is_the_operators(counted):
    x = torch.rand(2, 3, device="hpu")
    torch.mm(x, x.t())
    with counted() as work, pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        torch.mm(x, torch.rand(4, 3, device="hpu"))
    assert work["ops_predicted"] == 0


def test_a_model_of_a_new_size_does_not_wait(counted):
    """In eager mode either: the host goes on while the worker computes."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)).to("hpu")

    def step(n):
        F.gelu(model(torch.rand(n, 8, device="hpu")), approximate="tanh").softmax(-1).sum(0).square()

    step(3)
    step(3)
    with counted() as work:
        step(11)
    assert work["ops_predicted"] >= 5 and work["ops_waited"] <= 2, work
    assert work["ops_fallback"] == 0
