"""The table of the vendor's guids: each family in each dtype against PyTorch. docs/vendor-kernels.md is the page."""

import re
import struct
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional

from openhpu.interface.custom_ops import vendor_families
from tests.hpu import custom_ops

OPS = torch.ops.openhpu_test
DTYPES = {
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "i16": torch.int16,
    "i32": torch.int32,
}
SCALAR_TYPES = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.int16: 2,
    torch.int32: 3,
    torch.int64: 4,
    torch.float16: 5,
    torch.float32: 6,
    torch.bool: 11,
    torch.bfloat16: 15,
}
pack = struct.pack


@pytest.fixture(scope="module", autouse=True)
def library():
    custom_ops.loaded()


def call(guid, inputs, like, params=b""):
    """What the kernel gives for these inputs, as tensors of the sizes and dtypes of `like`."""
    layout = []
    for result in like:
        layout += [SCALAR_TYPES[result.dtype], result.dim(), *result.shape]
    return [t.cpu() for t in OPS.of_guid([t.to("hpu") for t in inputs], guid, layout, list(params))]


def numbers(dtype, *sizes):
    if dtype.is_floating_point:
        return torch.randn(sizes).to(dtype)
    return torch.randint(0 if dtype is torch.uint8 else -5, 6, sizes).to(dtype)


def row(reference, *params, inputs=lambda dtype: [numbers(dtype, 3, 5)], out=None, close=False, wide=False):
    """A family. `reference`: of the inputs and the params' values. `params`: (format, values ...), or one for floats
    and one for integers. `wide`: the reference takes float32. `out`: the dtype of the result, if it is another one."""
    return SimpleNamespace(**locals())


def positive(dtype):
    return [numbers(dtype, 3, 5).abs() + 1]


def halves(dtype):
    return [torch.tensor([0.5, -0.5, 1.5, 2.5, -2.5, 0.25, 7.0, -3.75]).to(dtype)]


def infinities(dtype):
    return [torch.tensor([1.0, float("inf"), -float("inf"), float("nan")]).to(dtype)]


def dividends(dtype):
    return [numbers(dtype, 3, 5), torch.tensor([1, -2, 3, 2, -3]).to(dtype).expand(3, 5)]


def cumulated(function):
    def reference(x, axis, exclusive, reverse):
        x = x.flip(-1 - axis) if reverse else x
        start = torch.zeros(1) if function is torch.cumsum else torch.ones(1)
        y = function(x, -1 - axis)
        if exclusive:
            y = torch.cat([start.expand(3, 1), y[:, :-1]], 1)
        return y.flip(-1 - axis) if reverse else y

    return reference


def shrunk(x, bound, bias):
    return torch.where(x > bound, x - bias, torch.where(x < -bound, x + bias, torch.zeros(())))


def generator(seed):
    return torch.Generator().manual_seed(seed)


def along(function):
    """Of a reduction, by dimensions as the vendor counts them."""
    return lambda x, axis: function(x, dim=-1 - axis)


def reduced(function, **more):
    return row(along(function), ("I", 0), ("I", 1), wide=True, **more)


def one_hot(indices, axis, depth, on, off):
    assert axis == 0
    return torch.where(functional.one_hot(indices.long(), depth) == 1, on, off)


def losses(dtype):
    return [functional.log_softmax(torch.randn(4, 5), -1).to(dtype), torch.tensor([4, 0, 2, 2], dtype=torch.int32)]


REDUCTIONS = ("mean", "sum", "none")
ROWS = {
    "relu": row(lambda x, _=0: x.relu(), (), ("f", 0.0)),
    "sigmoid": row(torch.sigmoid),
    "gelu": row(functional.gelu),
    "sin": row(torch.sin),
    "rsqrt": row(lambda x, _=0: x.rsqrt(), (), ("?", True), inputs=positive),
    "add": row(torch.add, inputs=lambda dtype: [numbers(dtype, 3, 5), numbers(dtype, 5)]),
    "div_mod": row(
        lambda a, b, python=False: (a // b, a % b) if python else (a.div(b, rounding_mode="trunc"), a.fmod(b)),
        (),
        ("?", True),
        inputs=dividends,
    ),
    "clamp": row(lambda x, upper, lower: x.clamp(lower, upper), ("ff", 1.0, -0.5), ("ii", 2, -1)),
    "hard_sigmoid": row(lambda x, a, b: (x * a + b).clamp(0, 1), ("ff", 0.25, 0.5), wide=True),
    "selu": row(lambda x, g, a, _=0: torch.where(x > 0, x, x.expm1() * a) * g, ("ff", 1.5, 2.0), wide=True),
    "elu": row(functional.elu, ("f", 1.5)),
    "leakyrelu": row(functional.leaky_relu, ("d", 0.125)),
    "round": row(
        lambda x, even=0: x.round() if even else x.sign() * (x.abs() + 0.5).floor(), (), ("i", 1), inputs=halves
    ),
    "shrink": row(shrunk, ("ff", 0.5, 0.25), wide=True),
    "logit": row(torch.logit, ("f", 0.125), inputs=lambda dtype: [torch.rand(9).to(dtype)]),
    "isinf": row(
        lambda x, negative, positive: (torch.isposinf(x) & bool(positive)) | (torch.isneginf(x) & bool(negative)),
        ("ii", 0, 1),
        ("ii", 1, 1),
        inputs=infinities,
        out=torch.bool,
    ),
    "softmax": row(along(torch.softmax), ("i", 0), ("i", 1)),
    "logsoftmax": row(along(torch.log_softmax), ("i", 0)),
    "layer_norm": row(
        lambda x, valid=True, eps=1e-5, axes=1, _=0: functional.layer_norm(
            x, x.shape if axes == 3 else x.shape[1:], eps=eps
        ),
        (),
        ("?xxxf", True, 0.25),
        ("?xxxfii", True, 0.25, 3, 3),
        close=True,
        wide=True,
    ),
    "lpnorm": row(
        lambda x, p, eps, dim, largest=False: (
            functional.normalize(x, p, -1, eps) if largest else x / (x.norm(p, -1, keepdim=True) + eps)
        ),
        ("ffi", 2.0, 0.25, 0),
        ("ffi?xxx", 1.0, 8.0, 0, True),
        wide=True,
    ),
    "cumsum": row(cumulated(torch.cumsum), ("iii", 0, 0, 0), ("iii", 0, 1, 1), wide=True),
    "cumprod": row(cumulated(torch.cumprod), ("iii", 0, 0, 1), ("iii", 0, 1, 0), wide=True),
    "reduce_sum": reduced(torch.sum),
    "reduce_mean": reduced(torch.mean),
    "reduce_prod": reduced(torch.prod),
    "reduce_max": reduced(torch.amax),
    "reduce_min": reduced(torch.amin),
    "reduce_L1": reduced(lambda x, dim: x.norm(1, dim)),
    "reduce_L2": reduced(lambda x, dim: x.norm(2, dim)),
    "reduce_sum_square": reduced(lambda x, dim: (x * x).sum(dim)),
    "reduce_log_sum": reduced(lambda x, dim: x.sum(dim).log(), inputs=positive),
    "reduce_log_sum_exp": reduced(torch.logsumexp),
    "reduce_Lp": row(lambda x, axis, p: x.norm(p, -1 - axis), ("II", 0, 3), wide=True),
    "argmax": row(along(torch.argmax), ("I", 0), ("I", 1), out=torch.int32),
    "argmin": row(along(torch.argmin), ("I", 0), ("I", 1), out=torch.int64),
    "tile": row(
        lambda x, *repeats: x.repeat(repeats[2], repeats[1], repeats[0]),
        ("4i", 2, 1, 3, 1),
        ("5i", 2, 3, 1, 1, 1),
        inputs=lambda dtype: [numbers(dtype, 2, 3, 2)],
    ),
    "repeat": row(lambda x, repeats, axis: x.repeat_interleave(repeats, -1 - axis), ("ii", 2, 1), ("ii", 3, 0)),
    "gather": row(
        lambda x, indices, axis: x.index_select(-1 - axis, indices),
        ("i", 0),
        ("i", 1),
        inputs=lambda dtype: [numbers(dtype, 3, 5), torch.tensor([2, 0, 2], dtype=torch.int32)],
    ),
    "gather_elements": row(
        lambda x, indices, axis: x.gather(-1 - axis, indices),
        ("i", 0),
        inputs=lambda dtype: [numbers(dtype, 3, 5), torch.tensor([[2, 0], [4, 4], [1, 3]])],
    ),
    "flip": row(lambda x, axis: x.flip(-1 - axis), ("i", 0), ("i", 1)),
    "reverse": row(lambda x, axis: x.flip(-1 - axis), ("i", 0), ("i", 1)),
    "one_hot": row(
        one_hot, ("iiff", 0, 4, 2.0, -1.0), inputs=lambda dtype: [torch.tensor([3, 0, 2], dtype=torch.int32)]
    ),
    "matrix_band_part": row(lambda x, lower, upper: x.tril(upper).triu(-lower), ("ii", 1, 0), ("ii", 0, 2)),
    "eye_like": row(lambda x, k=0: torch.ones(3, 5).tril(k).triu(k), (), ("i", 1), ("i", -1)),
    "constant": row(lambda value: torch.full((2, 3), value), ("f", 2.5), ("i", 7), inputs=lambda dtype: []),
    "range": row(torch.arange, ("fff", 1.0, 4.0, 0.5), ("iii", 1, 9, 2), inputs=lambda dtype: []),
    "random_uniform": row(
        lambda low, high, seed: torch.empty(4, 5).uniform_(low, high, generator=generator(seed)),
        ("ffI", -1.0, 2.0, 7),
        inputs=lambda dtype: [],
    ),
    "random_normal": row(
        lambda mean, deviation, seed: torch.empty(4, 5).normal_(mean, deviation, generator=generator(seed)),
        ("ffI", -1.0, 2.0, 7),
        inputs=lambda dtype: [],
    ),
    "random_bernoulli": row(
        lambda x, seed: torch.bernoulli(x, generator=generator(seed)),
        ("I", 7),
        inputs=lambda dtype: [torch.rand(4, 5).to(dtype)],
    ),
    "nll_loss": row(
        lambda x, targets, mode, ignored=-100: functional.nll_loss(
            x, targets.long(), ignore_index=ignored, reduction=REDUCTIONS[mode]
        ),
        ("i", 0),
        ("i", 1),
        ("ii", 2, 2),
        inputs=losses,
    ),
    "mse_loss": row(
        lambda x, targets, mode: functional.mse_loss(x, targets, reduction=REDUCTIONS[mode]),
        ("i", 0),
        ("i", 1),
        ("i", 2),
        inputs=lambda dtype: [numbers(dtype, 3, 5), numbers(dtype, 3, 5)],
    ),
    "adaptive_avg_pool_2d": row(
        lambda x, width, height: functional.adaptive_avg_pool2d(x.permute(0, 3, 1, 2), (height, width)).permute(
            0, 2, 3, 1
        ),
        ("ii", 2, 3),
        inputs=lambda dtype: [numbers(dtype, 2, 6, 4, 3)],
    ),
}
# Their guids name no dtype, or two.
OTHERS = {"cast", "memcpy", "topk"}
# Params are numbers of the guid's dtype.
BY_DTYPE = {"clamp", "constant", "range"}


def test_the_table_is_large_and_each_row_names_its_source():
    families = vendor_families()
    assert {family["name"] for family in families} == ROWS.keys() | OTHERS and len(families) >= 30
    assert all(family["source"] and family["computes"] for family in families)


@pytest.mark.parametrize("name", ROWS)
def test_a_family_computes_what_pytorch_does(name):
    row = ROWS[name]
    (family,) = [family for family in vendor_families() if family["name"] == name]
    assert family["dtypes"]
    for dtype_name in family["dtypes"].split():
        dtype = DTYPES[dtype_name]
        params = row.params or ((),)
        if name in BY_DTYPE:
            params = params[:1] if dtype.is_floating_point else params[1:]
        for k, (format, *values) in enumerate([(p or ("",)) for p in params]):
            inputs = row.inputs(dtype)
            expected = row.reference(*(t.float() if row.wide and t.is_floating_point() else t for t in inputs), *values)
            expected = expected if isinstance(expected, tuple) else (expected,)
            expected = [t.to(row.out or dtype) for t in expected]
            guid = f"{name}{('_fwd', '')[k % 2]}_{dtype_name}"
            for mine, theirs in zip(call(guid, inputs, expected, pack(format, *values)), expected, strict=True):
                tolerance = {} if row.close else {"rtol": 0, "atol": 0}
                torch.testing.assert_close(mine, theirs, **tolerance, msg=lambda text, guid=guid: f"{guid}: {text}")


def test_casts_between_each_two_dtypes():
    (family,) = [family for family in vendor_families() if family["name"] == "cast"]
    names = family["dtypes"].split()
    assert set(names) == DTYPES.keys()
    for source in names:
        x = torch.tensor([0, 1, 7, 100]).to(DTYPES[source])
        for target in names:
            expected = x.to(DTYPES[target])
            (mine,) = call(f"cast_{source}_to_{target}", [x], [expected])
            assert torch.equal(mine, expected), (source, target)


@pytest.mark.parametrize(
    "mode, expected",
    [
        (0, [2, 4, -2, -4, 2]),
        (1, [2, 3, -3, -4, 1]),
        (2, [3, 4, -2, -3, 2]),
        (4, [2, 3, -2, -3, 1]),
        (5, [2, 3, -2, -3, 1]),
        (6, [3, 4, -3, -4, 2]),
    ],
)
def test_a_cast_to_an_integer_rounds_as_its_params_say(mode, expected):
    x = torch.tensor([2.5, 3.5, -2.5, -3.5, 1.75])
    (mine,) = call("cast_f32_to_i32", [x], [x.int()], pack("i", mode))
    assert mine.tolist() == expected


def test_guids_without_a_dtype():
    for dtype in SCALAR_TYPES:
        x = torch.tensor([[3, 1, 2], [0, 5, 4]]).to(dtype)
        assert torch.equal(call("memcpy", [x], [x])[0], x)
    for dtype in (torch.float32, torch.bfloat16, torch.int32):
        x = torch.tensor([[3, 1, 2], [0, 5, 4]]).to(dtype)
        for axis, smallest in ((0, False), (1, True)):
            expected = x.topk(2, -1 - axis, largest=not smallest)
            mine = call("topk", [x], list(expected), pack("II?xxx", 2, axis, smallest))
            assert torch.equal(mine[0], expected.values) and torch.equal(mine[1], expected.indices)


X = torch.ones(3, 5)
REFUSED = {
    "two inputs": (("relu_f32", [X, X], [X]), "takes `x -> y` .*gives 2 inputs and 1 outputs"),
    "another dtype": (("relu_f32", [X.half()], [X]), "takes `x -> y` .*input 0 is of Half"),
    "another result": (("relu_f32", [X], [X.half()]), "output 0 is of Half"),
    "indices of floats": (("gather_f32", [X, X], [X], pack("i", 0)), "input 1 is of Float"),
    "a mask of floats": (("isinf_f32", [X], [X]), "output 0 is of Float"),
    "other params": (("elu_f32", [X], [X], pack("3f", 1, 1, 1)), "are ns_EluKernel::Params, of 4 bytes, .*12 bytes"),
    "no params": (("elu_f32", [X], [X]), "params are ns_EluKernel::Params, of 4 bytes, .*0 bytes"),
    "params for none": (("sin_f32", [X], [X], b"1234"), "takes no params, but the operator gives 4 bytes"),
    "a threshold": (("relu_f32", [X], [X], pack("f", 1.0)), "no public document says what a threshold other than 0"),
    "a dimension": (
        ("softmax_f32", [X], [X], pack("i", 2)),
        "dimension 2, counted from the fastest one, .*2 dimensions",
    ),
    "sizes": (("reduce_sum_f32", [X], [X], pack("I", 0)), "gives 3 elements as output 0, .*callback says 15"),
    "a rounding mode": (("cast_f32_to_i32", [X], [X.int()], pack("i", 3)), "rounding mode 3"),
    "an unknown order": (("batch_norm_f32", [X], [X]), "no public document gives the order of its operands"),
    "another family": (("fancy_fwd_f32", [X], [X]), "there is none: .*docs/vendor-kernels.md. does not name it"),
    "an unlisted dtype": (("sin_i8", [X.char()], [X.char()]), "there is none"),
    "a cast to nothing": (("cast_f32", [X], [X]), "there is none"),
    "a family alone": (("relu", [X], [X]), "there is none"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_no_kernel_takes_is_an_error_that_says_what_it_takes(what, usable):
    arguments, message = REFUSED[what]
    with pytest.raises(RuntimeError) as raised:
        call(*arguments)
    assert re.search(message, str(raised.value), re.DOTALL), raised.value


def test_a_kernel_of_the_users_own_goes_first(script):
    code = """
    from tests.hpu import custom_ops
    from tests.hpu.test_vendor_kernels import call
    custom_ops.loaded()
    openhpu.custom_kernel("sin_fwd_f32")(lambda x: x + 100)
    x = torch.ones(3)
    assert call("sin_fwd_f32", [x], [x])[0].tolist() == [101.0] * 3
    assert torch.equal(call("sin_f32", [x], [x])[0], x.sin())
    """
    script(code)
