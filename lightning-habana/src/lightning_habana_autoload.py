"""The entry point in PyTorch's group `torch.backends`: scripts get hpu without importing `lightning_habana`.

A module of its own, since importing `lightning_habana` imports Lightning. It is imported when the first Trainer or
Fabric is made: earlier Lightning may be in the middle of its own imports, and many scripts never make one.
"""

import functools
import importlib
import sys
from collections.abc import Callable, Iterable
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
    before_choices(CONNECTORS, lambda *_, **__: importlib.import_module("lightning_habana"))


def before_choices(modules: Iterable[str], function: Callable[..., object]) -> None:
    """Have `function` called before the classes of these modules choose, with the constructor and its arguments."""
    for module in modules:
        after_import(module, functools.partial(_wrap, module, function))


def _wrap(module: str, function: Callable[..., object]) -> None:
    connector: Any = getattr(sys.modules[module], CONNECTORS[module])
    original = connector.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        function(original, self, *args, **kwargs)
        original(self, *args, **kwargs)

    connector.__init__ = __init__
