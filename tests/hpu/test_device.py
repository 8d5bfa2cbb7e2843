"""The device as PyTorch sees it."""

import torch


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
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(4, device="hpu").isnan().all().item()
        assert (torch.empty(4, dtype=torch.int32, device="hpu") == torch.iinfo(torch.int32).max).all().item()
        assert torch.empty(2, device="hpu").resize_(5)[2:].isnan().all().item()
    finally:
        torch.use_deterministic_algorithms(False)
