"""torch.autocast("hpu"): which operators run in which dtype."""

import pytest
import torch


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
