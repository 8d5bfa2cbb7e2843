"""Matrix products of float32, and of a row in bfloat16: each library, form, layout, and operands that ask for care."""

import math

import pytest
import torch

from openhpu import _C

from .support import product_rule

RULES = ("mkl", "onednn", "auto")
# All that have a matrix product of their own: the operands' sizes, and the call.
SIZES = {2: ((33, 70), (70, 45)), 3: ((3, 33, 70), (3, 70, 45))}
LARGE = {2: ((160, 130), (130, 96)), 3: ((2, 160, 130), (2, 130, 96))}  # oneDNN's by the rule, where it is faster


def _out(function):
    def call(self, a, b):
        out = torch.full((*a.shape[:-1], b.shape[-1]), float("nan"), device=a.device)
        assert function(self, a, b, out) is out
        return out

    return call


def _into_itself(self, a, b):
    out = self.clone()
    return torch.addmm(out, a, b, out=out)


FORMS = {
    "mm": (2, lambda self, a, b: torch.mm(a, b)),
    "mm out": (2, _out(lambda self, a, b, out: torch.mm(a, b, out=out))),
    "addmm": (2, lambda self, a, b: torch.addmm(self, a, b)),
    "addmm of a row": (2, lambda self, a, b: torch.addmm(self[0], a, b)),
    "addmm of a column": (2, lambda self, a, b: torch.addmm(self[:, :1], a, b)),
    "addmm of numbers": (2, lambda self, a, b: torch.addmm(self, a, b, beta=0.5, alpha=-2)),
    "addmm of 0": (2, lambda self, a, b: torch.addmm(self * float("nan"), a, b, beta=0)),
    "addmm out": (2, _out(lambda self, a, b, out: torch.addmm(self, a, b, out=out))),
    "addmm of its out": (2, _into_itself),
    "addmm in place": (2, lambda self, a, b: self.clone().addmm_(a, b, beta=3)),
    "linear": (2, lambda self, a, b: torch.nn.functional.linear(a, b.mT, self[0])),
    "bmm": (3, lambda self, a, b: torch.bmm(a, b)),
    "bmm out": (3, _out(lambda self, a, b, out: torch.bmm(a, b, out=out))),
    "baddbmm": (3, lambda self, a, b: torch.baddbmm(self, a, b)),
    "baddbmm of numbers": (3, lambda self, a, b: torch.baddbmm(self[:, :1], a, b, beta=2, alpha=0.25)),
    "baddbmm out": (3, _out(lambda self, a, b, out: torch.baddbmm(self, a, b, out=out))),
    "baddbmm in place": (3, lambda self, a, b: self.clone().baddbmm_(a, b)),
    "matmul of a batch": (3, lambda self, a, b: torch.matmul(a, b[0])),
}


def strided(t):
    """The same values with gaps between rows."""
    wide = t.new_zeros(*t.shape[:-1], t.shape[-1] + 3)
    wide[..., : t.shape[-1]] = t
    return wide[..., : t.shape[-1]]


LAYOUTS = {
    "rows": lambda t: t,
    "columns": lambda t: t.mT.contiguous().mT,
    "gaps": strided,
    "one row for all": lambda t: t[..., :1, :].expand(t.shape),
    "overlapping": lambda t: t.flatten().as_strided(t.shape, (*t.stride()[:-2], 1, 1)),
}


@pytest.fixture(params=RULES)
def rule(request):
    """A rule of choice, for this test."""
    with product_rule(request.param):
        yield request.param


def drawn(dim, sizes):
    generator = torch.Generator().manual_seed(0)
    left, right = sizes[dim]
    return [torch.randn(s, generator=generator) for s in ((*left[:-1], right[-1]), left, right)]


def check(form, operands):
    """As on the CPU device within rounding: both sum as many products in other orders."""
    found = form(*map(on_device, operands))
    torch.testing.assert_close(found.cpu(), form(*operands), rtol=2e-5, atol=2e-4, equal_nan=True)
    return found


def on_device(t):
    """With the same strides, also where elements overlap."""
    copy = torch.empty(t.untyped_storage().nbytes() // t.element_size(), dtype=t.dtype, device="hpu")
    copy.copy_(t.as_strided(copy.shape, (1,), 0))
    return copy.as_strided(t.shape, t.stride(), t.storage_offset())


@pytest.mark.parametrize("sizes", [SIZES, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("name", FORMS)
def test_every_form(rule, name, sizes):
    dim, form = FORMS[name]
    found = check(form, drawn(dim, sizes))
    assert torch.equal(found, form(*(t.to("hpu") for t in drawn(dim, sizes))))  # the same bits again


@pytest.mark.parametrize("right", LAYOUTS)
@pytest.mark.parametrize("left", LAYOUTS)
@pytest.mark.parametrize("dim", [2, 3])
def test_every_layout(rule, dim, left, right):
    self, a, b = drawn(dim, LARGE)
    check(FORMS["addmm" if dim == 2 else "baddbmm"][1], (self, LAYOUTS[left](a), LAYOUTS[right](b)))


@pytest.mark.parametrize("rows", [1, 3, 15])
def test_few_rows_times_weights(rows):
    """Weights of `linear` lie by columns: oneDNN computes their products from one row on, where it computes any."""
    a, w = (torch.randn(s, generator=torch.Generator().manual_seed(2)) for s in ((rows, 1030), (4100, 1030)))
    by_columns = w.mT
    by_rows = w.mT.contiguous()
    found = {}
    for rule in RULES:
        with product_rule(rule):
            found[rule] = [check(torch.mm, (a, b)).cpu() for b in (by_columns, by_rows)]
    chosen = "mkl" if _C.product_bounds()[0] > 1030 * 4100 else "onednn"
    assert torch.equal(found["auto"][0], found[chosen][0])
    assert torch.equal(found["auto"][1], found[chosen if rows > 3 else "mkl"][1])


ROW_FORMS = [name for name, (dim, _) in FORMS.items() if dim == 2]


@pytest.mark.parametrize("layout", ["columns", "rows", "gaps"])
@pytest.mark.parametrize("name", ROW_FORMS)
def test_a_row_in_bfloat16(rule, name, layout):
    """As in float32, rounded at the end."""
    self, a, b = (t.bfloat16() for t in drawn(2, {2: ((1, 600), (600, 230))}))
    b = strided(b.mT.contiguous()).mT if layout == "gaps" else LAYOUTS[layout](b)
    form = FORMS[name][1]
    found = form(*map(on_device, (self, a, b))).cpu()
    expected = form(*(t.float() for t in (self, a, b)))
    torch.testing.assert_close(found.float(), expected, rtol=2**-7, atol=1e-3, equal_nan=True)


@pytest.mark.parametrize("mode", ["eager", "recipe"])
def test_a_row_in_bfloat16_has_the_bits_of_dot_products(script, mode):
    """Beside 2^24 ones are lost: how many, the order of the sum decides."""
    code = f"""
        w = torch.ones(140, 1000)
        for i, places in enumerate(torch.rand(140, 1000, generator=torch.Generator().manual_seed(3)).argsort()[:, :2]):
            w[i, places] = torch.tensor([2.0**24, -(2.0**24)])
        row, w = torch.ones(1000, dtype=torch.bfloat16), w.bfloat16()
        expected = torch.stack([torch.dot(row, column) for column in w])
        row, w = row.to("hpu")[None], w.to("hpu")
        for _ in range(3):
            found = torch.nn.functional.linear(row, w).cpu()[0]
        assert torch.equal(found, expected)
        assert found.unique().numel() > 1
        assert (openhpu.counters()["ops_in_recipes"] > 0) == {mode == "recipe"}
        """
    script(code, PT_HPU_LAZY_MODE=str(int(mode == "recipe")), OPENHPU_COMPILE="sync")


@pytest.mark.parametrize("sizes", [(128, 256), (64, 64), (7, 1), (1, 100), (500, 256)])
def test_a_row_in_bfloat16_times_few_weights_has_the_bits_of_the_cpu_device(sizes):
    """There they are those of the row among others, which libraries' tests compare."""
    for seed in range(60):
        torch.manual_seed(seed)
        operands = [torch.randn(s).bfloat16() for s in ((1, sizes[1]), sizes, sizes[:1])]
        found = torch.nn.functional.linear(*(t.to("hpu") for t in operands)).cpu()
        assert torch.equal(found, torch.nn.functional.linear(*operands))


@pytest.mark.parametrize("sizes", [(0, 4, 3), (4, 0, 3), (4, 3, 0), (1, 1, 1), (1, 300, 1), (300, 1, 300)])
def test_empty_and_thin_products(rule, sizes):
    m, k, n = sizes
    for name, *batch in (("mm",), ("addmm",), ("bmm", 2), ("bmm", 0)):
        check(FORMS[name][1], (torch.ones(*batch, m, n), torch.ones(*batch, m, k), torch.ones(*batch, k, n)))


def test_infinity_and_nan_stay_in_their_rows(rule):
    self, a, b = drawn(2, LARGE)
    a[3, 5], a[7, 2], b[:, 9] = math.inf, math.nan, 1e38
    found = check(FORMS["mm"][1], (self, a, b)).cpu()
    assert found[[0, 1, 2, 4, 8]][:, :9].isfinite().all()


def test_denormals_are_numbers(rule):
    a, b = (torch.full((256, 256), x, device="hpu") for x in (1e-31, 1e-10))
    assert torch.set_flush_denormal(True)
    try:
        found = (a @ b).cpu()
    finally:
        torch.set_flush_denormal(False)
    assert 0 < found.min() <= found.max() < torch.finfo(torch.float32).tiny


@pytest.mark.parametrize("name", ["mm", "bmm"])
def test_a_result_in_the_storage_of_an_operand(rule, name):
    _, a, b = drawn(FORMS[name][0], LARGE)
    both = torch.empty(a.numel() + a.numel() // 130 * 96, device="hpu")
    left = both[: a.numel()].view(a.shape).copy_(a)
    out = both[a.numel() :].view(*a.shape[:-1], 96)
    getattr(torch, name)(left, b.to("hpu"), out=out)
    torch.testing.assert_close(out.cpu(), a @ b, rtol=2e-5, atol=2e-4)


def test_other_dtypes_are_pytorchs(rule):
    for dtype in (torch.float64, torch.bfloat16, torch.int32, torch.complex64):
        a, b = (t.to(dtype) for t in drawn(2, LARGE)[1:])
        assert torch.equal((a.to("hpu") @ b.to("hpu")).cpu(), a @ b)


def test_mkl_has_the_bits_of_the_cpu_device(script):
    code = """
        a, b = torch.randn(160, 130), torch.randn(130, 96)
        torch.set_num_threads(1)
        assert torch.equal((a.to("hpu") @ b.to("hpu")).cpu(), a @ b)
        """
    script(code, OPENHPU_PRODUCTS="mkl")


def test_a_script_that_turns_onednn_off_has_mkl():
    a, b = (t.to("hpu") for t in drawn(2, LARGE)[1:])
    with product_rule("onednn"), torch.backends.mkldnn.flags(enabled=False, allow_tf32=None):
        off = (a @ b).cpu()
    with product_rule("mkl"):
        assert torch.equal(off, (a @ b).cpu())


@pytest.mark.parametrize("shapes", [((5, 8), (8, 3)), ((2, 4, 5, 8), (2, 4, 8, 3)), ((2, 1, 2, 5, 8), (2, 2, 1, 8, 3))])
def test_a_product_in_bfloat16_with_a_result_in_float32(shapes):
    a, b = (torch.randn(shape, dtype=torch.bfloat16) for shape in shapes)
    expected = a.double() @ b.double()
    out = torch.empty(expected.shape, device="hpu")
    assert torch.matmul(a.to("hpu"), b.to("hpu"), out=out) is out
    torch.testing.assert_close(out.cpu().double(), expected, rtol=1e-5, atol=1e-5)
