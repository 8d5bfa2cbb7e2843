"""Data of the machine's devices. Opens none."""

import re
import shutil
import subprocess
from functools import lru_cache
from typing import Any

import torch

import habana_frameworks.torch.hpu as torch_hpu
from lightning_habana import roots
from openhpu import settings

_FIRST_GENERATION = "GAUDI"  # has neither float8 nor float16


def device_count() -> int:
    """The number of devices that `devices="auto"` takes."""
    return torch_hpu.device_count()


def module_count() -> int:
    """The number of modules that this machine's processes may use: the most that `devices` can be."""
    return len(settings.machine_modules())


def get_device_stats(device: Any) -> dict[str, Any]:
    """The ten statistics of the device's memory manager; empty for an object that is not a device."""
    try:
        return torch_hpu.memory_stats(device)
    except (AttributeError, NameError, RuntimeError, ValueError):
        return {}


def is_fp8_available() -> tuple[bool, str]:
    """Whether the generation has float8, and the reason if not."""
    return _from_second_generation("FP8")


def is_fp16_available() -> tuple[bool, str]:
    """Whether the generation has float16, and the reason if not."""
    return _from_second_generation("FP16")


def _from_second_generation(dtype: str) -> tuple[bool, str]:
    if torch_hpu.get_device_name() == _FIRST_GENERATION:
        return False, f"{dtype} not supported on Gaudi, Gaudi2 or higher required."
    return True, ""


@lru_cache
def get_hpu_synapse_version() -> str:
    """The version that `hl-smi -v` names; 0.0.0 without that command."""
    found = re.search(r"(?:hl|fw)-([\d.]+)", _hl_smi("-v"))
    return found[1] if found else "0.0.0"


@lru_cache
def get_device_name_from_hlsmi() -> str:
    """GAUDI, GAUDI2 or GAUDI3, from `hl-smi -L`; from the device where that says nothing."""
    found = re.search(r"hl-gaudi(\d?)", _hl_smi("-L"), re.IGNORECASE)
    return f"GAUDI{found[1]}" if found else torch_hpu.get_device_name()


def _hl_smi(option: str) -> str:
    command = shutil.which("hl-smi")
    if command is None:
        return ""
    return subprocess.run([command, option], capture_output=True, text=True, check=False).stdout


def _parse_hpus(devices: int | str | None) -> int | None:
    """The number that the argument `devices` of Trainer and Fabric means; None stays None, -1 means all.

    Raises MisconfigurationException for what is no number, and for more than there are modules.
    """
    if devices is None:
        return None
    number = re.fullmatch(r"\s*(-?\d+)\s*", devices) if isinstance(devices, str) else None
    if isinstance(devices, bool) or not (isinstance(devices, int) or number):
        raise roots.MisconfigurationException(
            f"`devices` for `HPUAccelerator` must be int, string or None. Got devices={devices!r}; expected a "
            "number of devices, such as 2, '2' or 'auto'. HABANA_VISIBLE_MODULES chooses which ones."
        )
    count = int(number[1] if number else devices)
    if count == -1:
        return device_count()
    if not 1 <= count <= module_count():
        raise roots.MisconfigurationException(
            f"devices={devices!r}: expected a number from 1 to {module_count()}, which is how many modules "
            "there are. HABANA_VISIBLE_MODULES lists those that may be used, OPENHPU_DEVICE_COUNT says how many the "
            "machine has."
        )
    return count


def parallel_devices(devices: int | None) -> list[torch.device]:
    """A device for each process. None of them has an index: a process means its own module by every one."""
    return [torch.device("hpu")] * (device_count() if devices is None else devices)
