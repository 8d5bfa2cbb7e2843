"""float8_e4m3fn as on a Gaudi 2 (OPENHPU_STRICT=gaudi): numbers end at 240."""

import math

import pytest
import torch

from openhpu import _C

E4M3 = torch.float8_e4m3fn


@pytest.fixture(autouse=True)
def gaudi_2():
    torch.ones(1, device="hpu").item()  # the first use sets the usual level
    _C.set_level("e4m3-range", _C.Level.AS_GAUDI)
    yield
    torch.hpu.synchronize()
    _C.set_level("e4m3-range", _C.Level.NOTE)


def as_on_a_gaudi_2(pattern):
    """Sign, four bits of exponent, three of the fraction, with IEEE's meaning of the uppermost exponent."""
    sign = -1.0 if pattern & 0x80 else 1.0
    exponent, fraction = pattern >> 3 & 15, pattern & 7
    if exponent == 15:
        return math.nan if fraction else sign * math.inf
    return sign * (fraction / 8 * 2.0**-6 if exponent == 0 else (1 + fraction / 8) * 2.0 ** (exponent - 7))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("cast", [lambda x, to: x.to(to), lambda x, to: x.new_empty(x.shape, dtype=to).copy_(x)])
def test_every_pattern(dtype, cast):
    patterns = torch.arange(256, dtype=torch.uint8)
    x = patterns.to("hpu").view(E4M3)
    expected = torch.tensor([as_on_a_gaudi_2(p) for p in range(256)], dtype=dtype)
    torch.testing.assert_close(cast(x, dtype).cpu(), expected, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(x.clone().view(torch.uint8).cpu(), patterns)  # a copy keeps the bits
    # Into a part of a result, in another layout.
    wide = torch.zeros(16, 32, dtype=dtype, device="hpu")
    wide[:, ::2].copy_(x.view(16, 16).t())
    torch.testing.assert_close(wide[:, ::2].cpu(), expected.view(16, 16).t(), rtol=0, atol=0, equal_nan=True)
    assert wide[:, 1::2].eq(0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_results_above_240_are_infinity(dtype):
    given = torch.tensor([240.0, 247.0, -249.0, 256.0, -448.0, 1e4, math.inf, -math.inf, math.nan, 0.0], dtype=dtype)
    expected = torch.tensor([240.0, 240.0, *(s * math.inf for s in (-1, 1, -1, 1, 1, -1)), math.nan, 0.0])
    found = given.to("hpu").to(E4M3).float().cpu()
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


def test_products_have_nan_where_an_operand_has_none_of_its_numbers():
    a = torch.ones(16, 32, device="hpu").to(E4M3)
    b = torch.ones(16, 32, device="hpu").to(E4M3).t()
    a.view(torch.uint8)[3, 5] = 0x7E
    one = torch.ones((), device="hpu")
    found = torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.float32).cpu()
    assert found[3].isnan().all()
    assert found[[0, 1, 2, 4, 15]].eq(32).all()
    assert a.view(torch.uint8)[3, 5].item() == 0x7E


def test_another_generation_and_level_have_pytorchs_numbers():
    x = torch.arange(256, dtype=torch.uint8).to("hpu").view(E4M3)
    for level in (_C.Level.PASS, _C.Level.NOTE):
        torch.hpu.synchronize()
        _C.set_level("e4m3-range", level)
        expected = torch.arange(256, dtype=torch.uint8).view(E4M3).float()
        torch.testing.assert_close(x.float().cpu(), expected, rtol=0, atol=0, equal_nan=True)
        torch.hpu.synchronize()
