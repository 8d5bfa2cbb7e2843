"""fp8: casts, products, sums and softmaxes, against formulas in float64."""

import itertools
from functools import partial

import pytest
import torch

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
ops = torch.ops.hpu


def numbers(dtype, limit):
    """All finite numbers of an fp8 dtype up to `limit`, in order, in float64."""
    every = torch.arange(256, dtype=torch.uint8).view(dtype).double()
    return torch.unique(every[every.isfinite() & (every.abs() <= limit)])


def test_infinities_become_the_largest_number_and_nan_stays(native):
    x = torch.tensor([float("inf"), float("-inf"), float("nan")])
    for dtype, limit in ((E4M3, 240.0), (E5M2, 57344.0)):
        y = native(lambda x, dtype=dtype: ops.cast_to_fp8_v2(x, dtype=dtype)[0], x).float()
        assert y[:2].tolist() == [limit, -limit]
        assert y[2].isnan()


def test_the_maximum_is_that_of_the_input(everywhere):
    x = torch.tensor([[1.0, -7.5], [3.0, 2.0]], dtype=torch.bfloat16)
    y, amax = everywhere(lambda x, s: ops.cast_to_fp8_v2(x, s, False, True, E4M3), x, torch.tensor([2.0]))
    assert amax.item() == 7.5
    assert amax.dtype is torch.float32
    assert amax.shape == ()
    assert y.float().tolist() == [[2.0, -15.0], [6.0, 4.0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("shape", "channels", "beside"),
    [
        ((3, 4), 4, (4,)),
        ((3, 4), 3, (3, 1)),
        ((4, 4), 4, (4,)),
        ((6, 3, 2, 2), 6, (6, 1, 1, 1)),
        ((2, 3, 5, 4), 3, (3, 1, 1)),
        ((2, 5, 3), 5, (5, 1)),
    ],
)
def test_one_scale_for_each_channel(everywhere, shape, channels, beside, dtype):
    x = torch.randn(shape).to(dtype)
    scale = torch.rand(channels) + 0.5
    y = everywhere(lambda x, s: ops.cast_to_fp8_v2(x, s, False, False, E4M3)[0], x, scale)
    assert torch.equal(y.float(), (x * scale.to(dtype).reshape(beside)).to(E4M3).float())
    again = everywhere(lambda y, s: ops.cast_from_fp8(y, s, dtype), y, scale)
    assert torch.equal(again, y.to(dtype) * scale.to(dtype).reshape(beside))


@pytest.mark.parametrize("as_number", [False, True])
def test_a_cast_of_bfloat16_multiplies_in_bfloat16(everywhere, as_number):
    x = torch.randn(64, 64).to(torch.bfloat16)
    scale = 1 / 0.0222
    expected = (x * torch.tensor(scale, dtype=torch.bfloat16)).to(E4M3)
    wide = (x.float() * scale).to(E4M3)
    given = scale if as_number else torch.tensor(scale, device="hpu")
    y = everywhere(lambda x: ops.cast_to_fp8_v2(x, given, False, False, E4M3)[0], x)
    assert torch.equal(y.float(), expected.float())
    assert not torch.equal(y.float(), wide.float())


def test_a_product_in_bfloat16_is_rounded_before_its_scales(native):
    a, b = torch.randn(16, 32).to(E4M3), torch.randn(8, 32).to(E4M3)
    rows, columns = torch.rand(1) + 0.5, torch.rand(8) + 0.5
    product = a.double() @ b.double().t()
    expected = product.to(torch.bfloat16) * (rows * columns).to(torch.bfloat16)
    y = native(ops.fp8_gemm_v2, a, False, b, True, None, torch.bfloat16, rows, columns)
    assert torch.equal(y, expected)
    assert not torch.equal(y, (product * rows * columns).to(torch.bfloat16))


def test_stochastic_rounding_is_right_in_the_mean(native):
    for value in (1.04, 0.3, -5.1, 2.0**-8 * 1.3, 100.3):
        for dtype in (E4M3, E5M2):
            x = torch.full((40000,), value)
            y = native(partial(ops.cast_to_fp8_v2, stochastic_rounding=True, dtype=dtype), x)[0].double()
            around = numbers(dtype, 57344.0)
            below = around[around <= value].max()
            above = around[around > value].min()
            assert set(y.unique().tolist()) == {below.item(), above.item()}
            deviation = (above - below) / 2 / 40000**0.5
            assert abs(y.mean() - value) < 5 * deviation


def test_both_formats_at_once_and_casts_into_tensors(native):
    x = torch.tensor([0.3, 100.0])

    def casts(x):
        out, amax = torch.empty(2, dtype=E4M3, device=x.device), torch.zeros(1, device=x.device)
        ops.cast_to_fp8(x, None, False, out, amax)
        return *ops.cast_to_fp8_hybrid(x, torch.tensor(2.0, device=x.device), None, False, True), out, amax

    e5m2, e4m3, amax, out, same_amax = native(casts, x)
    assert (e5m2.dtype, e4m3.dtype, amax.item(), same_amax.tolist()) == (E5M2, E4M3, 100.0, [100.0])
    assert torch.equal(e5m2.float(), (x * 2).to(E5M2).float())
    assert torch.equal(out.float(), e4m3.float())


def operands(trans_a, trans_b, batch=()):
    torch.manual_seed(3)
    a, b = torch.randn(*batch, 5, 7), torch.randn(7, 4)
    a, b = (a * 20).to(E4M3), (b * 20).to(E4M3)
    return a.transpose(-1, -2).contiguous() if trans_a else a, b.t().contiguous() if trans_b else b


# By operand of fp8_gemm_v2: what is added, its scales and what they mean.
PRODUCTS = {
    "alone": ({}, 1.0),
    "numbers": ({"A_scale_inv": 0.5, "B_scale_inv": 0.25}, 0.125),
    "lists": ({"A_scale_inv": [2.0], "B_scale_inv": [1.0, 2.0, 3.0, 4.0]}, 2 * torch.arange(1.0, 5.0).double()),
}


@pytest.mark.parametrize(("trans_a", "trans_b"), list(itertools.product([False, True], repeat=2)))
@pytest.mark.parametrize("scales", PRODUCTS)
def test_a_product_of_transposed_operands(native, scales, trans_a, trans_b):
    a, b = operands(trans_a, trans_b)
    given, factor = PRODUCTS[scales]
    exact = (a.double().t() if trans_a else a.double()) @ (b.double().t() if trans_b else b.double()) * factor
    y = native(lambda a, b: ops.fp8_gemm_v2(a, trans_a, b, trans_b, None, torch.float32, **given), a, b)
    torch.testing.assert_close(y.double(), exact, rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_a_product_with_everything(everywhere, batch):
    a, b = operands(False, True, batch)
    d, bias = torch.randn(*batch, 5, 4), torch.randn(4)
    rows, columns = torch.rand(5) + 0.5, torch.rand(4) + 0.5
    expected = (a.double() @ b.double().t()) * rows.double()[:, None] * columns.double() + bias.double() + d.double()
    y = everywhere(
        ops.fp8_gemm_v2,
        A=a,
        trans_A=False,
        B=b,
        trans_B=True,
        D=d,
        out_dtype=torch.bfloat16,
        A_scale_inv=rows,
        B_scale_inv=columns,
        bias=bias,
        accumulate=True,
        B_scale_shape=[4, 1],
    )
    assert y.dtype is torch.bfloat16
    assert torch.equal(y, expected.to(torch.bfloat16)) or (y.double() - expected).abs().max() < 2**-7 * expected.max()


def test_a_product_into_a_tensor_and_under_autocast(native):
    a, b = operands(False, False)

    def into(a, b):
        out = torch.empty(5, 4, device=a.device)
        ops.fp8_gemm(
            A=a,
            trans_A=False,
            B=b,
            trans_B=False,
            D=torch.ones_like(out),
            out_dtype=torch.float32,
            A_scale_inv=None,
            B_scale_inv=None,
            bias=None,
            accumulate=True,
            out=out,
        )
        with torch.autocast("hpu"):  # which changes no dtype of fp8
            return out - 1, ops.fp8_gemm_v2(a, False, b, False, None, torch.float32)

    for product in native(into, a, b):
        torch.testing.assert_close(product.double(), a.double() @ b.double(), rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("groups", [1, 2])
def test_a_convolution(native, everywhere, groups):
    x = (torch.randn(2, 4, 6, 5) * 9).to(E4M3)
    w = (torch.randn(6, 4 // groups, 3, 3) * 9).to(E4M3)
    bias = torch.randn(6)
    scale = torch.rand(6) + 0.5
    exact = torch.nn.functional.conv2d(x.double(), w.double(), None, (1, 2), 1, 1, groups)
    exact = exact * 0.25 * scale.double()[:, None, None] + bias.double()[:, None, None]
    given = (x, w, bias, (1, 2), (1, 1), (1, 1), groups, torch.float32, torch.tensor(0.25), scale)
    y = (everywhere if groups == 1 else native)(ops.conv2d_fp8, *given)
    torch.testing.assert_close(y.double(), exact, rtol=1e-5, atol=1e-3)
    numbers = native(ops.conv2d_fp8, *given[:-2], 0.25, 2.0)
    exact = torch.nn.functional.conv2d(x.double(), w.double(), None, (1, 2), 1, 1, groups) * 0.5
    torch.testing.assert_close(numbers.double(), exact + bias.double()[:, None, None], rtol=1e-5, atol=1e-3)


def test_softmax_and_sum(everywhere):
    x, added = torch.randn(3, 8, dtype=torch.bfloat16), torch.randn(8)
    exact = torch.softmax(x.double() * 0.5 * 3.0 + added.double(), -1)

    def work(x, added):
        return ops.softmax_fp8(x, -1, 0.5, 128.0, 3.0, added), ops.softmax_fp8(x, -1, None, None, None, added)

    quantized, plain = everywhere(work, x, added)
    assert quantized.dtype is E4M3
    assert plain.dtype is torch.bfloat16
    assert (quantized.double() - exact * 128).abs().max() <= 8
    torch.testing.assert_close(plain.double(), torch.softmax(x.double() + added.double(), -1), rtol=1e-2, atol=1e-3)
    heads = torch.tensor(3.0, device="hpu")  # the other two scales are numbers
    again = ops.softmax_fp8(x.to("hpu"), -1, 0.5, 128.0, heads, added.to("hpu"))
    assert torch.equal(again.cpu().float(), quantized.float())
    y = x.to(E4M3)
    total = everywhere(lambda y: ops.sum_fp8(y, [1], True, torch.float32), y)
    torch.testing.assert_close(total.double(), y.double().sum(1, keepdim=True), rtol=1e-6, atol=1e-6)


def test_products_of_one_dimension(native):
    a, b = torch.randn(4).to(E4M3), torch.randn(4, 5).to(E4M3)
    for left, right in ((a, b), (b.t(), a), (a, a)):
        y = native(lambda x, y: ops.fp8_gemm_v2(x, x.dim() == 1, y, False, None, torch.float32, 2.0, 0.5), left, right)
        torch.testing.assert_close(y, torch.matmul(left.float(), right.float()))


SCALES = {
    "none": None, "number": 0.5, "list": [0.5], "tensor": torch.tensor(0.5), "one": torch.tensor([0.5]),
    "channels": torch.tensor([1.0, 2.0, 4.0, 0.5]), "rows": torch.tensor([[1.0], [2.0], [0.25]]),
    "list of channels": [1.0, 2.0, 4.0, 0.5],
}  # fmt: skip


@pytest.mark.parametrize("form", SCALES)
@pytest.mark.parametrize(("dtype", "rounded", "around"), [(E4M3, 36.0, {36.0, 40.0}), (E5M2, 40.0, {32.0, 40.0})])
def test_scales_of_every_form(native, dtype, rounded, around, form):
    scale = SCALES[form]
    x = torch.full((3, 4), 37.1429) / (1.0 if scale is None else torch.as_tensor(scale))

    def cast(x, scale, stochastic):
        return ops.cast_to_fp8_v2(x, scale, stochastic, False, dtype)[0]

    assert (native(cast, x, scale, False).float() == rounded).all()
    drawn = native(cast, x.repeat(32, 1) if form != "rows" else x, scale, True).float()
    assert set(drawn.flatten().tolist()) <= around
    if scale is None or isinstance(scale, torch.Tensor):
        hybrid = native(lambda x, s: ops.cast_to_fp8_hybrid(x, s, s), x, scale)
        assert torch.equal(hybrid[0].float(), torch.full((3, 4), 40.0))
        assert torch.equal(hybrid[1].float(), torch.full((3, 4), 36.0))


@pytest.mark.parametrize("form", ["number", "tensor", "channels"])
@pytest.mark.parametrize("dtype", [E4M3, E5M2])
@pytest.mark.parametrize("factor", [0.3, 0.7, 1.9])
def test_a_cast_is_the_product_bit_for_bit_beside_ties(native, dtype, factor, form):
    table = numbers(dtype, 200.0).float()
    middles = (table[1:] + table[:-1]) / 2 / factor
    x = torch.cat([middles, *(torch.nextafter(middles, torch.tensor(side)) for side in (-1e9, 1e9))])
    scale = {"number": factor, "tensor": torch.tensor(factor), "channels": torch.full(x.shape, factor)}[form]
    y = native(lambda x, s: ops.cast_to_fp8_v2(x, s, False, False, dtype)[0], x, scale)
    product = (x * torch.tensor(factor)).clamp(-240, 240)
    assert torch.equal(y.view(torch.uint8), product.to(dtype).view(torch.uint8))
    back = native(lambda y, s: ops.cast_from_fp8(y, s, torch.float32), y, scale)
    assert torch.equal(back, y.float() * torch.tensor(factor))


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [None, [0], [1], [0, 2], [-1]])
@pytest.mark.parametrize("out_dtype", [None, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dtype", [E4M3, E5M2])
def test_sums_are_exact(native, dtype, out_dtype, dim, keepdim):
    x = torch.randn(4, 6, 5).to(dtype)
    y = native(lambda x: ops.sum_fp8(x, dim, keepdim, out_dtype), x)
    expected = x.double().sum() if dim is None and not keepdim else x.double().sum(dim, keepdim)
    expected = expected.float().to(out_dtype or dtype)
    assert y.dtype is expected.dtype
    assert torch.equal(y.float(), expected.float())


FORMS = {
    "numbers": {},
    "one element": {"shape": (1,)},
    "e5m2": {"dtypes": (E5M2, E4M3)},
    "fast": {"use_fast_accum": True},
    "in e4m3": {"out_dtype": E4M3, "error": 2**-4},
    "in e5m2": {"out_dtype": E5M2, "error": 2**-3},
    "in the operands' dtype": {"out_dtype": None, "error": 2**-4},
    "divided": {"out_dtype": E4M3, "scale_result": 2.0, "error": 2**-4},
    "odd sizes": {"sizes": (5, 7, 3)},
    "rows and columns": {"shape": (-1, 1)},
    "float32": {"out_dtype": torch.float32},
    "float16": {"out_dtype": torch.float16},
}


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_scaled_mm_is_the_product_of_the_dequantised_operands(everywhere, form, biased):
    """As on PyTorch's CPU device: scales multiply the operands. That of a result in 8 bits divides it."""
    row = {"sizes": (16, 32, 48), "shape": (), "dtypes": (E4M3, E4M3), "error": 2**-8, "out_dtype": torch.bfloat16}
    row |= FORMS[form]
    (m, k, n), error, out_dtype = row["sizes"], row["error"], row["out_dtype"]
    a, b = torch.randn(m, k).to(row["dtypes"][0]), torch.randn(n, k).to(row["dtypes"][1])
    rows = row["shape"] == (-1, 1)
    powers = [f * 2.0 ** (torch.arange(size if rows else 1) % 4) for f, size in ((0.5, m), (0.25, n))]
    left, right = (t.reshape(row["shape"]) for t in powers)
    wide = out_dtype in (torch.float32, torch.float16)
    bias = None
    if biased:
        bias = torch.randn(n).to(out_dtype if wide else torch.bfloat16)
    result, fast = row.get("scale_result"), row.get("use_fast_accum", False)
    scales = left, right.t() if rows else right, bias, None if result is None else torch.tensor(result)
    y = everywhere(torch._scaled_mm, a, b.t(), *scales, out_dtype, fast)
    exact = (a.double() * left) @ (b.double() * right).t() + (0 if bias is None else bias.double())
    exact = exact / (result or 1.0)
    assert y.dtype is (out_dtype or a.dtype)
    assert ((y.double() - exact).abs() <= error * exact.abs() + 2**-6).all()
