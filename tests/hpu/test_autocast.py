"""torch.autocast("hpu"): which operators run in which dtype."""

import pytest
import torch
from torch import nn


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_matrix_products_run_in_lower_precision(dtype):
    x = torch.ones(4, 4, device="hpu")
    with torch.autocast("hpu", dtype=dtype):
        assert (x @ x).dtype == dtype
        assert nn.functional.linear(x, x).dtype == dtype
        assert torch.bmm(x[None], x[None]).dtype == dtype
        assert nn.functional.conv2d(x[None, None], x[None, None]).dtype == dtype
        assert nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]).dtype == dtype
    assert (x @ x).dtype == torch.float32


def test_the_cpus_autocast_is_another():
    x, y = torch.ones(2, 2, device="hpu"), torch.ones(2, 2)
    with torch.autocast("hpu"):
        assert (y @ y).dtype == torch.float32
    with torch.autocast("cpu"):
        assert (x @ x).dtype == torch.float32


def test_an_unsupported_dtype_is_a_warning_and_no_autocast():
    x = torch.ones(2, 2, device="hpu")
    with pytest.warns(UserWarning, match="not supported"), torch.autocast("hpu", dtype=torch.float64):
        assert (x @ x).dtype == torch.float32
