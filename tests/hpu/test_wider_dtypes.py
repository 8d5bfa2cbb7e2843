"""Dtypes that the device has and the CPU's kernels lack: computed in a wider one, rounded once (csrc/run/Widening)."""

import pytest
import torch
import torch.nn.functional as F

from .support import to_hpu

FLOATS8 = (torch.float8_e5m2, torch.float8_e4m3fn)


@pytest.mark.parametrize("dtype", FLOATS8)
def test_eight_bit_floats_are_rounded_once(dtype, no_fallback):
    x, y = torch.randn(40, 30).to(dtype), torch.randn(40, 30).to(dtype)
    for function in (torch.mul, torch.add, torch.maximum, lambda a, b: torch.mm(a, b.t())):
        for _ in range(2):
            got = function(x.to("hpu"), y.to("hpu"))
            assert got.dtype is dtype
            assert torch.equal(got.cpu().float(), function(x.float(), y.float()).to(dtype).float())


def test_results_of_other_dtypes_stay_as_they_are():
    x = torch.tensor([3.0, 1.0, 2.0]).to(torch.float8_e5m2)
    for _ in range(2):
        assert torch.argmax(x.to("hpu")).item() == 0
        assert (x.to("hpu") > 1.5).tolist() == [True, False, True]
        values, indices = x.to("hpu").sort()
        assert values.dtype is torch.float8_e5m2
        assert indices.tolist() == [1, 2, 0]
        assert x.to("hpu").sum(dtype=torch.float32).dtype is torch.float32


def test_what_is_written_in_place_and_to_out():
    x = torch.full((4,), 2.0).to(torch.float8_e4m3fn).to("hpu")
    view = x[1:3]
    for _ in range(3):
        assert view.mul_(2) is view
    assert x.float().tolist() == [2, 16, 16, 2]
    out = torch.empty(0, dtype=torch.float8_e4m3fn, device="hpu")
    for _ in range(2):
        assert torch.add(x, x, out=out) is out
    assert out.float().tolist() == [4, 32, 32, 4]
    torch.add(out, out, out=out)  # an operand that is the result, too
    assert out.float().tolist() == [8, 64, 64, 8]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("function", [torch.cdist, lambda x, y: torch.special.erfcx(x)], ids=["cdist", "erfcx"])
def test_halves_where_the_cpu_has_no_kernel_for_them(dtype, function, no_fallback):
    x, y = torch.randn(6, 4).to(dtype), torch.randn(5, 4).to(dtype)
    for _ in range(2):
        torch.testing.assert_close(function(x.to("hpu"), y.to("hpu")).cpu(), function(x.double(), y.double()).to(dtype))


def test_integers_that_gaudis_table_names():
    a, b = torch.tensor([1, 8, -7], dtype=torch.int32), torch.tensor([4, 2, 7], dtype=torch.int32)
    for _ in range(2):
        got = torch.lerp(a.to("hpu"), b.to("hpu"), 0.5)
        assert got.dtype is torch.int32
        assert got.tolist() == [2, 5, 0]
    assert torch.take(a.to("hpu"), torch.tensor([2, 0], dtype=torch.int32, device="hpu")).tolist() == [-7, 1]
    drawn = torch.empty(1000, dtype=torch.int32, device="hpu").uniform_(2, 6)
    assert set(drawn.tolist()) == {2, 3, 4, 5}
    assert torch.randint(0, 2, (100,), dtype=torch.bool, device="hpu").dtype is torch.bool


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_integers_are_counted_as_floats_are(dtype):
    """histc of integers (src/openhpu/integration/histogram.py)."""
    x = torch.tensor([0, 3, 3, 1, 7, 7, 7, 9])
    for bins, low, high in ((4, 0, 3), (10, 0, 9), (5, 0, 0), (3, 2, 2), (4, 0.5, 8.5), (2, -3, 5)):
        expected = torch.histc(x.double(), bins, low, high).to(dtype)
        for _ in range(2):
            found = torch.histc(x.to("hpu", dtype), bins, low, high)
            assert found.dtype == dtype
            assert found.device.type == "hpu"
            assert torch.equal(found.cpu(), expected)


def test_integers_that_no_float_holds_are_counted():
    x = torch.tensor([2**40, 2**40 + 1, 2**40 + 1])
    assert torch.histc(x.to("hpu"), 2, 2**40, 2**40 + 1).tolist() == [1, 2]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int64, torch.float16, torch.bfloat16, torch.float64])
def test_a_sum_of_which_negative_numbers_are_cut_off(dtype):
    """The CPU's _add_relu ends in an internal assertion for some of these."""
    a, b = torch.tensor([1, 2, 3], dtype=dtype, device="hpu"), torch.tensor([4, 5, 6], dtype=dtype, device="hpu")
    out = torch.empty_like(a)
    for _ in range(2):
        results = torch.ops.aten._add_relu(a, b), torch.ops.aten._add_relu.out(a, b, out=out), a.clone()
        torch.ops.aten._add_relu_(results[2], b)
        assert all(r.dtype is dtype and r.tolist() == [5, 7, 9] for r in results)
    if dtype is not torch.uint8:
        assert torch.ops.aten._add_relu(a, b - 8).tolist() == [0, 0, 1]


def test_quotients_of_halves_and_of_mixed_dtypes(no_fallback):
    a = torch.tensor([5, -7], device="hpu")
    for x, y in ((a.half(), a.half() / a.half() * 2), (a, a.bfloat16() * 0 + 2), (a.int(), a.half() * 0 + 2)):
        assert torch.floor_divide(x, y).tolist() == [2, -4]


def test_other_integers_and_wrong_sizes_are_pytorchs_errors():
    x, (three, four) = torch.tensor([1, 2]), (torch.ones(n).to(torch.float8_e5m2) for n in (3, 4))
    for function, *given in ((lambda t: t.softmax(0), x), (F.gelu, x), (torch.mean, x), (torch.mul, three, four)):
        with pytest.raises(RuntimeError) as expected:
            function(*given)
        for _ in range(2):
            with pytest.raises(type(expected.value)) as error:
                function(*to_hpu(given))
                torch.hpu.synchronize()
            assert str(expected.value).splitlines()[0][:60] in str(error.value)


def test_a_known_call_does_not_wait(gate, counted):
    x = torch.ones(5).to(torch.float8_e4m3fn).to("hpu")
    for _ in range(2):
        (x * x).float().cpu()
    with gate, counted(ops_waited=0):
        y = (x * x).float()
    assert y.tolist() == [1.0] * 5


def test_calls_whose_dtype_has_a_kernel_are_not_widened():
    assert (torch.full((), 16777217, dtype=torch.int64, device="hpu") + 1).item() == 16777218
    y = torch.tensor(1e-30, dtype=torch.float64, device="hpu")
    assert (y * y).item() == 1e-30 * 1e-30


def test_operators_of_gpus_and_gaudis():
    x = torch.ones(4000, device="hpu", requires_grad=True)
    out, mask = torch._fused_dropout(x, 0.25)
    assert mask.dtype is torch.uint8
    assert 800 < mask.sum().item() < 1200
    assert torch.equal(out.detach().cpu(), mask.cpu() * 4.0)
    out.sum().backward()
    assert torch.equal(x.grad, mask * 4.0)
    with pytest.raises(RuntimeError, match="correct device"):
        torch._resize_output_(torch.empty(0, device="hpu"), (2, 3), torch.device("cpu"))
    with pytest.raises(RuntimeError, match="but got 0"):
        torch._fused_dropout(x, 0.0)
