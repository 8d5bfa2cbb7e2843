"""What is known of the machine's devices."""

import pytest
import torch

from lightning_habana import roots
from lightning_habana.utils import resources


def test_hl_smi():
    assert resources.get_hpu_synapse_version().count(".") >= 2
    assert resources.get_device_name_from_hlsmi() == torch.hpu.get_device_name() == "GAUDI2"


def test_without_hl_smi(monkeypatch):
    monkeypatch.setenv("PATH", "")
    resources.get_hpu_synapse_version.cache_clear()
    resources.get_device_name_from_hlsmi.cache_clear()
    assert resources.get_hpu_synapse_version() == "0.0.0"
    assert resources.get_device_name_from_hlsmi() == "GAUDI2"
    resources.get_hpu_synapse_version.cache_clear()
    resources.get_device_name_from_hlsmi.cache_clear()


@pytest.mark.parametrize(("devices", "count"), [(1, 1), ("2", 2), (" 3 ", 3), (None, None)])
def test_numbers_of_devices(devices, count):
    assert resources._parse_hpus(devices) == count


@pytest.mark.parametrize("devices", [True, [1], 1.0, "", "two", "1.5"])
def test_what_is_no_number(devices):
    with pytest.raises(roots.MisconfigurationException, match="must be int, string or None"):
        resources._parse_hpus(devices)


def test_float16_of_the_generation(monkeypatch):
    assert resources.is_fp16_available() == (True, "")
    monkeypatch.setenv("OPENHPU_GENERATION", "gaudi")
    assert resources.is_fp16_available() == (False, "FP16 not supported on Gaudi, Gaudi2 or higher required.")
