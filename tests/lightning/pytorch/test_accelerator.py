"""Trainer's accelerator by itself."""

import pytest
import torch

from lightning_habana import HPUAccelerator, roots


def test_what_it_says():
    accelerator = HPUAccelerator()
    assert accelerator.is_available()
    assert accelerator.name() == "hpu"
    assert accelerator.get_device_name() == "GAUDI2"
    assert accelerator.auto_device_count() == torch.hpu.device_count()
    assert accelerator.get_parallel_devices(2) == [torch.device("hpu")] * 2
    assert accelerator.is_fp8_available() == (True, "")
    assert accelerator.get_device_stats("cpu") == {}
    assert set(accelerator.get_device_stats(torch.device("hpu"))) == set(torch.hpu.memory_stats())


def test_setup_device():
    HPUAccelerator().setup_device(torch.device("hpu"))
    with pytest.raises(roots.MisconfigurationException, match="Device should be HPU, got cpu instead"):
        HPUAccelerator().setup_device(torch.device("cpu"))


def test_generation(monkeypatch):
    monkeypatch.setenv("OPENHPU_GENERATION", "gaudi")
    assert HPUAccelerator.is_fp8_available() == (False, "FP8 not supported on Gaudi, Gaudi2 or higher required.")
