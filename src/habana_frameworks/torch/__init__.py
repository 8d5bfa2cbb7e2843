"""Gaudi's PyTorch package. Importing it loads the device, if `import torch` did not, and reads PT_HPU_LAZY_MODE."""

import importlib
import os
from typing import Any

import torch as torch

from openhpu.device import mode
from openhpu.integration import registration

registration.register()
mode.fix()

from habana_frameworks import autoload  # noqa: E402
from habana_frameworks.torch import core, hpu, internal, utils  # noqa: E402

autoload.is_loaded = True

# mpirun says by variables of its own which process this is. Programs look for LOCAL_RANK after this import.
if "OMPI_COMM_WORLD_SIZE" in os.environ:
    importlib.import_module(f"{__name__}.distributed.hccl")

__all__ = ["core", "hpu", "internal", "torch", "utils"]

# Packages that a script names without importing them: `ht.dynamo.compile_backend.config`.
_LATER = ("distributed", "dynamo", "gpu_migration", "hpex")


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
