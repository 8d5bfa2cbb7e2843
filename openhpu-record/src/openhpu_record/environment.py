"""What a recording says of the machine: versions, flags and the card, without names of the user or the host."""

import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

_PACKAGES = ("habana-torch-plugin", "openhpu", "openhpu-record", "transformers", "optimum-habana", "vllm", "deepspeed")
# Variables whose values are facts about the device. Others may hold names and keys.
_PREFIXES = ("PT_", "HABANA_", "HLS_", "HCCL_", "LOG_LEVEL_", "OPENHPU_", "TORCH_DEVICE_BACKEND")
_SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD", "URL", "HOST")
# No serial number, no address.
_SMI = ["hl-smi", "-Q", "name,driver_version,memory.total,memory.used,utilization.aip,temperature.aip,power.draw"]
_SMI_S = 20.0
_METRICS = ("graph_compilation", "cpu_fallback", "memory_defragmentation", "recipe_cache")


def without_names(text: str, folder: str = "") -> str:
    """A text without the user's folders. `folder`: that of the script, which becomes `.`."""
    places = [
        (folder, "."),
        (str(Path(torch.__file__).parent.parent), "<packages>"),
        (sys.prefix, "<python>"),
        (str(Path(os.__file__).parent), "<python>"),
        (os.path.expanduser("~"), "~"),
        (os.getcwd(), "."),
    ]
    for path, name in places:
        if len(path) > 1:
            text = text.replace(path, name)
    user = os.environ.get("USER", "")
    return text.replace(f"/{user}/", "/<user>/") if user else text


def environment(device: str, folder: str = "") -> dict[str, Any]:
    """Versions, flags, the processor and the card."""
    found: dict[str, Any] = {
        "device": device,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "packages": {name: version for name in _PACKAGES if (version := _version(name))},
        "flags": {
            name: without_names(value, folder)
            for name, value in sorted(os.environ.items())
            if name.startswith(_PREFIXES) and not any(word in name for word in _SECRET)
        },
        "lazy": is_lazy(device),
    }
    if device == "hpu":
        module: Any = vars(torch)["hpu"]
        found["name"] = asked(lambda: str(module.get_device_name()))
        found["capability"] = asked(lambda: str(module.get_device_capability()))
        found["hl_smi"] = asked(_smi)
    return found


def is_lazy(device: str) -> bool:
    """Whether the device is in lazy mode, as Gaudi's own function says."""
    if device != "hpu":
        return False
    try:
        from habana_frameworks.torch.utils.internal import is_lazy as lazy
    except ImportError:
        return os.environ.get("PT_HPU_LAZY_MODE", "0") == "1"
    return bool(lazy())


def facts(device: str) -> dict[str, Any]:
    """Memory statistics and metrics, as far as the device has them."""
    module = getattr(torch, device, None)
    found: dict[str, Any] = {}
    if device == "cpu" or module is None:
        return found
    memory = asked(lambda: dict(module.memory_stats()))
    found["memory"] = memory if isinstance(memory, dict) else {"error": str(memory)}
    found["metrics"] = {name: values for name in _METRICS if (values := asked(lambda name=name: _metric(name)))}
    return found


def _metric(name: str) -> Any:
    from habana_frameworks.torch.hpu.metrics import metric_global

    metric = metric_global(name)
    return {str(tag): value for tag, value in metric.stats()} if metric is not None else None


def asked(question: Callable[..., Any]) -> Any:
    """The answer, or the error's text: what one version lacks must not end a recording."""
    try:
        return question()
    except Exception as error:
        return without_names(f"{type(error).__name__}: {error}"[:300])


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _smi() -> str:
    said = subprocess.run([*_SMI, "-f", "csv"], capture_output=True, text=True, timeout=_SMI_S)
    return said.stdout.strip() if said.returncode == 0 else f"exit code {said.returncode}"
