"""Numbers of 4 bits, against formulas in float64."""

import pytest
import torch

from openhpu.interface.gaudi_ops.quantized import NF4

ops = torch.ops.hpu


def packed(numbers):
    """int32 that hold eight numbers of 4 bits each, the first in the lowest bits."""
    total = ((numbers.long() & 0xF).unflatten(-1, (-1, 8)) << torch.arange(0, 32, 4)).sum(-1)
    return torch.where(total >= 2**31, total - 2**32, total).to(torch.int32)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("zeros", ["none", "packed", "plain"])
def test_integers_with_scales_of_groups(everywhere, signed, zeros):
    low, high = (-8, 8) if signed else (0, 16)
    w, scale, zero = torch.randint(low, high, (6, 16)), torch.rand(3, 16), torch.randint(low, high, (3, 16))
    given = {"none": None, "packed": packed(zero), "plain": zero.float()}[zeros]
    name = "convert_from_int4" if signed else "convert_from_uint4"
    y = everywhere(lambda *t: getattr(ops, name)(*t, torch.float32), packed(w), scale, given)
    shifted = w if zeros == "none" else w - zero.repeat_interleave(2, 0)
    expected = shifted.double() * scale.double().repeat_interleave(2, 0)
    torch.testing.assert_close(y.double(), expected, rtol=1e-6, atol=1e-7)


def test_rows_may_name_their_group(native):
    w, scale, index = torch.randint(0, 16, (4, 8)), torch.rand(2, 8), torch.tensor([1, 0, 1, 1])
    y = native(lambda w, s, i: ops.convert_from_uint4(w, s, None, torch.bfloat16, i), packed(w), scale, index)
    torch.testing.assert_close(y.double(), w.double() * scale[index].double(), rtol=2**-8, atol=0)


@pytest.mark.parametrize("count", [64, 70, 37])
def test_nf4(everywhere, count):
    codes = torch.randint(0, 16, (count + count % 2,))
    data = (codes[::2] * 16 + codes[1::2]).to(torch.uint8)
    absmax = torch.rand(-(-count // 16)) + 0.1
    y = everywhere(lambda d, a: ops.dequantize_nf4(d, a, 16, (count,), torch.float32), data, absmax)
    expected = torch.tensor(NF4).double()[codes[:count]] * absmax.double().repeat_interleave(16)[:count]
    torch.testing.assert_close(y.double(), expected, rtol=1e-6, atol=0)


FP4 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]).double()


@pytest.mark.parametrize("dtype", ["mxfp4", "nvfp4"])
def test_fp4_is_the_nearest_number_of_its_block(native, dtype):
    size = 32 if dtype == "mxfp4" else 16
    x = torch.randn(3, 2 * size)
    y = native(lambda x: ops.fake_quant_fp4(x, False, -1, dtype), x).double()
    for row, result in zip(x.double().reshape(-1, size), y.reshape(-1, size), strict=True):
        if dtype == "mxfp4":
            scale = 2.0 ** (torch.floor(torch.log2(row.abs().max())) - 2)
        else:
            scale = (row.abs().max() / 6).to(torch.float8_e4m3fn).double()
        scaled = (row / scale).abs().clamp_max(6)
        nearest = FP4[(scaled.unsqueeze(-1) - FP4).abs().argmin(-1)] * row.sign() * scale
        torch.testing.assert_close(result, nearest, rtol=1e-6, atol=0)


def test_fp4_rounds_stochastically(native):
    x = torch.full((64, 32), 2.6)
    x[:, 0] = 4.0
    y = native(lambda x: ops.fake_quant_fp4(x, True, 1, "mxfp4"), x)
    assert set(y[:, 1:].unique().tolist()) == {2.0, 3.0}
    assert abs(y[:, 1:].mean() - 2.6) < 0.05


@pytest.mark.parametrize(
    ("modes", "settings", "expected"),
    [
        ((1, 0), {"fullscale": 240.0, "backoff": 0.5}, 6.0 / 120),
        ((2, 0), {"reduceAxis": 1, "reduceKeepdim": False, "fullscale": 2.0, "backoff": 0.5}, [6.0, 3.0]),
        ((2, 0), {"reduceAxis": 0}, [2.0, 6.0]),
        ((2, 1), {"reduceAxis": -1, "reduceKeepdim": True}, [[8.0], [4.0]]),
        ((1, 1), {"fullscale": 5.0, "backoff": 1.0}, 2.0),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_scales_for_casts(everywhere, modes, settings, expected, dtype):
    x = torch.tensor([[1.0, -6.0], [2.0, 3.0]], dtype=dtype)
    scale = everywhere(lambda x: ops.calculate_scale_for_cast(x, *modes, **settings), x)
    torch.testing.assert_close(scale, torch.tensor(expected, dtype=dtype))


def test_a_scale_that_is_there_is_rounded(native):
    scale = native(lambda x: ops.calculate_scale_for_cast(x, 0, 1), torch.tensor([0.3, 5.0, 4.0]))
    assert scale.tolist() == [0.5, 8.0, 4.0]
