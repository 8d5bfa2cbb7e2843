"""Which of Lightning's distributions this process extends: `lightning`, or `pytorch_lightning` with `lightning_fabric`.

One of them, as their classes are different ones: that which is imported already, `lightning` if both or none are.
"""

import importlib
import importlib.util
import sys
from typing import Any

_ROOTS = ("lightning", "pytorch_lightning")


def _chosen() -> str:
    for name, loaded in zip(_ROOTS, ("lightning", "lightning_fabric"), strict=True):
        if loaded in sys.modules:
            return name
    for name in _ROOTS:
        if importlib.util.find_spec(name) is not None:
            return name
    raise ImportError("lightning_habana needs lightning or pytorch_lightning: pip install lightning")


NAME = _chosen()
OTHER = _ROOTS[NAME == "lightning"]


def trainer_package(name: str) -> str:
    """The package that has `Trainer` in the distribution `name`."""
    return "lightning.pytorch" if name == "lightning" else name


def fabric_package(name: str) -> str:
    """The package that has `Fabric` in the distribution `name`."""
    return "lightning.fabric" if name == "lightning" else "lightning_fabric"


def pytorch(module: str = "") -> Any:
    """A module of Trainer's package: `pytorch("strategies")` is `lightning.pytorch.strategies`, or its twin."""
    return importlib.import_module(".".join(filter(None, (trainer_package(NAME), module))))


def fabric(module: str = "") -> Any:
    """A module of Fabric's package."""
    return importlib.import_module(".".join(filter(None, (fabric_package(NAME), module))))


MisconfigurationException: Any = fabric("utilities.exceptions").MisconfigurationException
# The base of a class that is mixed into one of Lightning's, whose attributes it has then.
Mixin: Any = object
