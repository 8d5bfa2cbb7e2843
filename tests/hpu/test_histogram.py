"""histc of integers (src/openhpu/integration/histogram.py)."""

import pytest
import torch
from torch.testing import assert_close

import openhpu

DTYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


@pytest.mark.parametrize("dtype", DTYPES)
def test_integers_are_counted_as_floats_are(dtype):
    x = torch.tensor([0, 3, 3, 1, 7, 7, 7, 9])
    for bins, low, high in ((4, 0, 3), (10, 0, 9), (5, 0, 0), (3, 2, 2), (4, 0.5, 8.5), (2, -3, 5)):
        expected = torch.histc(x.double(), bins, low, high).to(dtype)
        for _ in range(2):
            found = torch.histc(x.to("hpu", dtype), bins, low, high)
            assert found.dtype == dtype and found.device.type == "hpu"
            assert_close(found.cpu(), expected)


def test_integers_that_no_float_holds():
    x = torch.tensor([2**40, 2**40 + 1, 2**40 + 1])
    assert torch.histc(x.to("hpu"), 2, 2**40, 2**40 + 1).tolist() == [1, 2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_floats_are_left_to_the_kernel(dtype):
    x = torch.rand(100).to(dtype)
    try:
        expected = torch.histc(x, 7, 0, 1)
    except (RuntimeError, NotImplementedError):  # as on the CPU
        with pytest.raises((RuntimeError, NotImplementedError), match="histogram_cpu"):
            torch.histc(x.to("hpu"), 7, 0, 1).cpu()
            torch.hpu.synchronize()
        return
    assert_close(torch.histc(x.to("hpu"), 7, 0, 1).cpu(), expected)


def test_without_fallback():
    before = openhpu.counters()["ops_fallback"]
    assert torch.histc(torch.tensor([[0, 1], [1, 3]], device="hpu"), 4, 0, 3).tolist() == [1, 2, 0, 1]
    assert openhpu.counters()["ops_fallback"] == before
