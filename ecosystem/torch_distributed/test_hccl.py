"""PyTorch's `DistributedTest` over hccl, each test with WORLD_SIZE processes."""

import importlib
import os
import sys
import tempfile
import types

import torch
from torch.testing._internal.common_distributed import DistTestCases

from ecosystem.torch_distributed.translate import translated

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
