"""Operators of new sizes whose results PyTorch describes without a run: as the CPU's kernel would have left them."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from .support import to_cpu, to_hpu

aten = torch.ops.aten


def _rand(*sizes):
    return torch.rand(sizes) + 0.5


def _spread(*sizes):
    return _rand(*sizes[::-1]).permute(*range(len(sizes))[::-1])


def _part(*sizes):
    return _rand(*(2 * s for s in sizes))[tuple(slice(1, 1 + s) for s in sizes)]


# By operator: arguments for a size n, on tensors that `make(*sizes)` returns. Of sizes that no other test uses.

CALLS = {
    aten.mm.default: lambda make, n: (make(n, 19), make(19, 2 * n)),
    aten.addmm.default: lambda make, n: (make(2 * n), make(n, 19), make(19, 2 * n)),
    aten.bmm.default: lambda make, n: (make(2, n, 19), make(2, 19, n)),
    aten.baddbmm.default: lambda make, n: (make(2, n, n), make(2, n, 19), make(2, 19, n)),
    aten.add.Tensor: lambda make, n: (make(n, 19), make(3, 1, 1)),
    aten.add_.Tensor: lambda make, n: (make(n, 19, 3), make(1, 19, 1)),
    aten.sub.Tensor: lambda make, n: (make(n, 19, 3), make(n, 19, 3)),
    aten.mul.Tensor: lambda make, n: (make(n, 19, 3), torch.tensor(2.0)),
    aten.div.Tensor: lambda make, n: (make(n, 19, 3), make(n, 1, 3)),
    aten._softmax.default: lambda make, n: (make(n, 19, 3), 1, False),
    aten._log_softmax.default: lambda make, n: (make(n, 23), -1, False),
    aten.threshold_backward.default: lambda make, n: (make(n, 19), make(n, 19), 0),
    aten.sum.dim_IntList: lambda make, n: (make(n, 19, 3), [0, 2]),
    aten.mean.dim: lambda make, n: (make(n, 19, 3), [1], True),
    **{op.default: lambda make, n: (make(n, 19, 3),) for op in (aten.exp, aten.log, aten.sqrt, aten.rsqrt, aten.gelu)},
    **{op.default: lambda make, n: (make(n, 19, 3),) for op in (aten.sigmoid, aten.tanh, aten.cos, aten.sin, aten.neg)},
    aten.silu.default: lambda make, n: (make(n, 19, 3),),
    aten.gelu_backward.default: lambda make, n: (make(n, 19, 3), make(n, 19, 3)),
    aten.tanh_backward.default: lambda make, n: (make(n, 19), make(n, 19)),
    aten.sigmoid_backward.default: lambda make, n: (make(n, 19), make(n, 19)),
    aten._softmax_backward_data.default: lambda make, n: (make(n, 23), make(n, 23), 1, torch.float32),
    aten._log_softmax_backward_data.default: lambda make, n: (make(n, 23), make(n, 23), 1, torch.float32),
    aten.cat.default: lambda make, n: ([make(n, 19, 3), make(n, 3, 3)], 1),
    aten.pow.Tensor_Scalar: lambda make, n: (make(n, 19, 3), 2),
    aten.maximum.default: lambda make, n: (make(n, 19, 3), make(n, 1, 3)),
    aten.mul_.Tensor: lambda make, n: (make(n, 19, 3), make(1, 19, 1)),
}


def _last(*sizes):
    return _rand(*sizes).contiguous(memory_format=torch.channels_last)


def _convolved(x, weight, bias=None, *, stride=1, padding=0, transposed=False, output_padding=0, groups=1):
    """The arguments of a convolution; a number counts for each dimension."""

    def each(value):
        return [value] * (x.dim() - 2) if isinstance(value, int) else value

    return (x, weight, bias, each(stride), each(padding), each(1), transposed, each(output_padding), groups)


def _convolution(make, n, stride=1, padding=1, groups=1, channels=4):
    weight = make(8, channels, 3, 3)
    return _convolved(make(n, 4, 6, n + 4), weight, _rand(8), stride=stride, padding=padding, groups=groups)


def _convolution_backward(make, n, mask, **changed):
    x, weight, bias, *options = _convolution(make, n, **changed)
    y = torch.convolution(x, weight, bias, *options)
    return (torch.rand_like(y), x, weight, [8], *options, mask)


def _normalization(make, n, training, backward=False):
    x, (weight, bias, mean, variance) = make(n, 8, 4, 3), (_rand(8) for _ in range(4))
    if not backward:
        return (x, weight, bias, mean, variance, training, 0.1, 1e-5)
    saved = (_rand(8), _rand(8)) if training else (torch.empty(0), torch.empty(0))
    return (make(n, 8, 4, 3), x, weight, mean, variance, *saved, training, 1e-5, [True, True, False])


def _layer(n, backward=False):
    x, weight, bias = _rand(n, 5, 8), _rand(8), _rand(8)
    if not backward:
        return (x, [8], weight, bias, 1e-5)
    return (_rand(n, 5, 8), x, [8], _rand(n, 5, 1), _rand(n, 5, 1), weight, bias, [True, True, True])


def _attention(n, backward=False):
    # Parts of one tensor, as models make them.
    query, key, value = (_rand(n, 2 * n, 3, 2, 8)[:, :, k].transpose(1, 2) for k in range(3))
    if not backward:
        return (query, key, value, 0.0, False)
    out, logsumexp = aten._scaled_dot_product_flash_attention_for_cpu(query, key, value)
    return (torch.rand_like(out), query, key, value, out, logsumexp, 0.0, False)


def _classes(n, classes):
    return torch.randint(classes, (n,))


# The same for operators of which only sizes are known: of tensors in rows, or channels last.
BY_SIZES = {
    "relu": (aten.relu.default, lambda make, n: (make(n, 3, 4, 5),)),
    "zero_": (aten.zero_.default, lambda make, n: (make(n, 3, 4, 5),)),
    "copy_": (aten.copy_.default, lambda make, n: (make(n, 3, 4, 5), make(n, 3, 1, 5))),
    "index_select": (aten.index_select.default, lambda make, n: (make(n, 3, 4, 5), 0, _classes(n + 1, n))),
    "of the last": (aten.index_select.default, lambda _, n: (_rand(n, 5), -1, _classes(n + 1, 5))),
    "embedding": (aten.embedding.default, lambda _, n: (_rand(7, 5), _classes(n, 7).expand(3, n).contiguous())),
    "embedding backward": (
        aten.embedding_dense_backward.default,
        lambda _, n: (_rand(3, n, 5), _classes(3 * n, 7).view(3, n), 7, -1, False),
    ),
    "loss": (aten.nll_loss_forward.default, lambda _, n: (_rand(n, 7), _classes(n, 7), None, 1, -100)),
    "loss of each": (aten.nll_loss_forward.default, lambda _, n: (_rand(n, 7), _classes(n, 7), _rand(7), 0, 2)),
    "loss backward": (
        aten.nll_loss_backward.default,
        lambda _, n: (_rand(n), _rand(n, 7), _classes(n, 7), None, 0, -100, torch.tensor([0.0])),
    ),
    "convolution": (aten.convolution.default, _convolution),
    "strided": (aten.convolution.default, partial(_convolution, stride=2, padding=0)),
    "groups": (aten.convolution.default, partial(_convolution, groups=2, channels=2)),
    "line": (aten.convolution.default, lambda _, n: _convolved(_rand(n, 4, 9), _rand(8, 4, 3), padding=1)),
    "volume": (
        aten.convolution.default,
        lambda _, n: _convolved(_rand(n, 2, 4, 5, 6), _rand(3, 2, 2, 2, 2), stride=[1, 2, 1]),
    ),
    "transposed": (
        aten.convolution.default,
        lambda make, n: _convolved(
            make(n, 8, 4, 5), make(8, 3, 3, 3), stride=2, padding=1, transposed=True, output_padding=1
        ),
    ),
    "backward": (aten.convolution_backward.default, partial(_convolution_backward, mask=[True, True, True])),
    "first layer": (aten.convolution_backward.default, partial(_convolution_backward, mask=[False, True, False])),
    "batch norm": (aten._native_batch_norm_legit.default, partial(_normalization, training=True)),
    "frozen batch norm": (aten.native_batch_norm.default, partial(_normalization, training=False)),
    "batch norm backward": (
        aten.native_batch_norm_backward.default,
        partial(_normalization, training=True, backward=True),
    ),
    "layer norm": (aten.native_layer_norm.default, lambda _, n: _layer(n)),
    "layer norm backward": (aten.native_layer_norm_backward.default, lambda _, n: _layer(n, backward=True)),
    "attention": (aten._scaled_dot_product_flash_attention_for_cpu.default, lambda _, n: _attention(n)),
    "attention backward": (
        aten._scaled_dot_product_flash_attention_for_cpu_backward.default,
        lambda _, n: _attention(n, backward=True),
    ),
}


# Those whose operands may be images, which may lie channels last.
IMAGES = (
    "relu",
    "zero_",
    "copy_",
    "index_select",
    "convolution",
    "strided",
    "groups",
    "transposed",
    "backward",
    "first layer",
    "batch norm",
    "frozen batch norm",
    "batch norm backward",
)


def moved(values):
    """On the device, lying there as here."""
    return [to_hpu(value) if not isinstance(value, torch.Tensor) or value.dim() else value for value in values]


def results(value):
    """Those that there are, of one operator."""
    return [result for result in (value if isinstance(value, tuple) else (value,)) if result is not None]


def assert_as_on_the_cpu(op, arguments, counted, predicted=1):
    given = moved(arguments)
    for one, other in zip(given, arguments, strict=True):
        assert not isinstance(one, torch.Tensor) or one.stride() == other.stride()
    expected = results(op(*arguments))
    with counted() as work:
        actual = results(op(*given))
        torch.hpu.synchronize()
    if predicted is not None:
        assert work["ops_predicted"] == predicted, work
        assert work["ops_waited"] == work["ops_rehearsed"] == 0, work
        assert work["outputs_copied"] == 0, work
    assert [result.stride() for result in actual] == [result.stride() for result in expected]
    torch.testing.assert_close(to_cpu(actual), expected, rtol=1e-4, atol=1e-4)
    with counted(ops_predicted=0):  # known now
        op(*given)


def check(op, arguments, make, learned, sizes, counted):
    """After a call that was learned, those of other sizes are predicted."""
    op(*moved(arguments(make, learned)))
    torch.hpu.synchronize()
    for n in sizes:
        assert_as_on_the_cpu(op, arguments(make, n), counted)


@pytest.mark.parametrize("make", [_rand, _spread, _part], ids=["dense", "permuted", "part"])
@pytest.mark.parametrize("op", CALLS, ids=str)
def test_structured_operators(op, make, counted):
    check(op, CALLS[op], make, 2, (37, 41, 1, 0), counted)


@pytest.mark.parametrize(
    ("case", "make"), [(case, _rand) for case in BY_SIZES] + [(case, _last) for case in BY_SIZES if case in IMAGES]
)
def test_operators_of_which_sizes_are_known(case, make, counted):
    op, arguments = BY_SIZES[case]
    check(op, arguments, make, 9, (13, 11, 17), counted)
    assert_as_on_the_cpu(op, arguments(make, 1), counted, predicted=None)


def test_one_operator_with_many_options(counted):
    """Each learns from a call of its own kind."""
    kinds = [partial(_convolution, _rand, stride=s, groups=g, channels=4 // g) for s in (1, 2) for g in (1, 2)]
    for kind in kinds:
        aten.convolution.default(*moved(kind(n=19)))
    torch.hpu.synchronize()
    for kind in kinds:
        assert_as_on_the_cpu(aten.convolution.default, kind(n=23), counted)


def test_strides_that_were_wrongly_supposed_are_put_right(script):
    """A kernel that lays out large results in another way: readers see what the host was told."""
    code = """
        with torch.library._scoped_library("aten", "IMPL") as library:
            def relu(x):  # the stand-in for a kernel that chooses by size
                y = torch.maximum(x, torch.zeros(()))
                return y if x.size(0) < 4 else torch.empty_strided(x.shape, (1, x.size(0))).copy_(y)
            library.impl("relu", relu, "CPU", allow_override=True)
            small, large = torch.arange(-3.0, 3).view(2, 3), torch.arange(-9.0, 9).view(6, 3)
            torch.relu(small.to("hpu"))
            given = large.to("hpu")
            torch.hpu.synchronize()
            with counted(outputs_copied=1) as work:
                y = torch.relu(given)
                z = y + 1
                assert y.stride() == (3, 1)
                assert y.tolist() == large.clamp(min=0).tolist()
                assert z.tolist() == (large.clamp(min=0) + 1).tolist()
            assert work["ops_predicted"] >= 1
    """
    script(code, warnings="ignore")


@pytest.mark.parametrize(
    ("op", "right", "wrong", "message"),
    [
        (aten.convolution.default, _convolution(_rand, 2), (_rand(2, 5, 6, 6),), "to have 4 channels"),
        (aten.native_layer_norm.default, _layer(3), (_rand(3, 5, 9),), "expected input with shape"),
        (aten.mm.default, (_rand(2, 3), _rand(3, 2)), (_rand(2, 4),), "shapes cannot be multiplied"),
    ],
    ids=["convolution", "layer norm", "product"],
)
def test_sizes_that_do_not_fit_are_an_error_at_the_call(op, right, wrong, message, counted):
    op(*moved(right))
    with counted(ops_predicted=0), pytest.raises(RuntimeError, match=message):
        op(*moved((*wrong, *right[1:])))
    torch.hpu.synchronize()


@pytest.mark.parametrize(
    ("call", "dtype"), [(lambda x: x + x.double(), torch.float64), (lambda x: x.long() * 0.5, torch.float32)]
)
def test_dtypes_that_are_mixed_are_left_to_a_run(call, dtype, counted):
    call(torch.arange(4.0, device="hpu"))
    x = torch.arange(8.0, device="hpu")
    x.double()
    x.long()
    with counted(ops_predicted=0):
        y = call(x)
        torch.hpu.synchronize()
    assert y.dtype == dtype
    assert torch.equal(y.cpu(), call(torch.arange(8.0)))


def test_a_model_of_a_new_size_does_not_wait(counted):
    """In eager mode either: the host goes on while the worker computes."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)).to("hpu")

    def step(n):
        F.gelu(model(torch.rand(n, 8, device="hpu")), approximate="tanh").softmax(-1).sum(0).square()

    step(3)
    step(3)
    with counted(ops_fallback=0) as work:
        step(11)
    assert work["ops_predicted"] >= 5, work
    assert work["ops_waited"] <= 2, work
