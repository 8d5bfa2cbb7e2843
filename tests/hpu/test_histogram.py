"""histc of integers (src/openhpu/integration/histogram.py)."""

import pytest
import torch
from torch.testing import assert_close

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
