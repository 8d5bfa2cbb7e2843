"""The device as PyTorch sees it."""

import pytest
import torch
from torch.testing._internal.common_utils import DeterministicGuard


def test_hpu_is_the_accelerator():
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator() == torch.device("hpu")
    assert torch.accelerator.device_count() == torch.hpu.device_count()
    assert torch.accelerator.current_device_index() == 0


def test_numbers_mean_hpu_devices():
    assert torch.device(0) == torch.device("hpu:0")
    assert torch.ones(1).to(0).device == torch.device("hpu:0")
    assert torch.empty(1, device=torch.device("hpu")).device == torch.device("hpu:0")


def test_deterministic_mode_fills_new_memory():
    with DeterministicGuard(True):
        assert torch.empty(4, device="hpu").isnan().all().item()
        assert (torch.empty(4, dtype=torch.int32, device="hpu") == torch.iinfo(torch.int32).max).all().item()
        assert torch.empty(2, device="hpu").resize_(5)[2:].isnan().all().item()


def test_the_cpus_autocast_is_another():
    x, y = torch.ones(2, 2, device="hpu"), torch.ones(2, 2)
    with torch.autocast("hpu"):
        assert (y @ y).dtype == torch.float32
    with torch.autocast("cpu"):
        assert (x @ x).dtype == torch.float32


def test_an_autocast_to_an_unsupported_dtype_is_a_warning_and_no_autocast():
    x = torch.ones(2, 2, device="hpu")
    with pytest.warns(UserWarning, match="not supported"), torch.autocast("hpu", dtype=torch.float64):
        assert (x @ x).dtype == torch.float32
