"""The entry point in PyTorch's group `torch.backends`: scripts get hpu without importing `lightning_habana`.

A module of its own, since importing `lightning_habana` imports Lightning. It is imported when the first Trainer or
Fabric is made: earlier Lightning may be in the middle of its own imports, and many scripts never make one.
"""

import functools
import importlib
import sys
from typing import Any

from openhpu.integration.late_imports import after_import

# Modules of Lightning's two distributions, and the class in each that chooses the accelerator.
CONNECTORS = {
    "lightning.pytorch.trainer.connectors.accelerator_connector": "_AcceleratorConnector",
    "lightning.fabric.connector": "_Connector",
    "pytorch_lightning.trainer.connectors.accelerator_connector": "_AcceleratorConnector",
    "lightning_fabric.connector": "_Connector",
}


def after_lightning() -> None:
    """Have `lightning_habana` imported by the first Trainer or Fabric. Imports nothing."""
    for module, name in CONNECTORS.items():
        after_import(module, functools.partial(_wrap, module, name))


def _wrap(module: str, name: str) -> None:
    connector: Any = getattr(sys.modules[module], name)
    original = connector.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        importlib.import_module("lightning_habana")
        original(self, *args, **kwargs)

    connector.__init__ = __init__
