"""PyTorch's `DistributedTest` over hccl, each test with WORLD_SIZE processes.

The tests name the device throughout; what is replaced is names, nothing else. From them follow what the tests compare,
skip and expect of a backend for accelerators.
"""

import importlib.util
import os
import re
import sys
import tempfile
import types
from pathlib import Path

import torch
from torch.testing._internal.common_distributed import DistTestCases

_NAMES = (
    (r'"nccl"', '"hccl"'),
    (r"dist\.Backend\.NCCL", '"hccl"'),
    (r"dist\.is_nccl_available\(\)", "True"),
    (r"torch\.cuda\b", "torch.hpu"),
    (r"\.cuda\(", ".hpu("),
    (r'"cuda([":])', r'"hpu\1'),
    (r"ProfilerActivity\.CUDA", "ProfilerActivity.HPU"),
    (r"DeviceType\.CUDA", "DeviceType.HPU"),
    # A Gaudi has these for all devices only.
    (
        r"from torch\.hpu\.amp import autocast, GradScaler",
        'autocast = lambda *a, **k: torch.amp.autocast("hpu", *a, **k)\n'
        'GradScaler = lambda *a, **k: torch.amp.GradScaler("hpu", *a, **k)',
    ),
)


def translated() -> str:
    """The module's text. Raises FileNotFoundError where this build of PyTorch has no tests."""
    package = importlib.util.find_spec("torch.testing._internal.distributed")
    folders = list(package.submodule_search_locations or ()) if package else []
    text = (Path(folders[0] if folders else "") / "distributed_test.py").read_text()
    for pattern, name in _NAMES:
        text = re.sub(pattern, name, text)
    return text


# Not yet: this process would take itself for rank 0, whose only device is its own. The tests name devices by rank.
_size = os.environ.pop("WORLD_SIZE")
importlib.import_module("habana_frameworks.torch.distributed.hccl")
os.environ["WORLD_SIZE"] = _size
os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("TEMP_DIR", tempfile.mkdtemp())

# What no backend for accelerators does with tensors of the CPU.
for _backends in DistTestCases.skip_collective.values():
    if "nccl" in _backends:
        _backends.add("hccl")
for _feature in ("gpu", "cuda", "ddp", "subgroup"):
    DistTestCases.backend_feature.setdefault(_feature, set()).add("hccl")

_module = types.ModuleType("hccl_distributed_test")
sys.modules[_module.__name__] = _module
exec(compile(translated(), f"{_module.__name__}.py", "exec"), _module.__dict__)


class TestHCCL(_module.TestDistBackend, _module.DistributedTest._DistTestBase):  # type: ignore[name-defined]
    """A process forked for each rank: this one has imported everything and opened no device."""

    def setUp(self) -> None:
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)
