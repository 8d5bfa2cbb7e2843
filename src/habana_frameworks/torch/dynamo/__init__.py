"""torch.compile on hpu, under Gaudi's names."""

import importlib
from typing import Any

_LATER = ("compile_backend", "debug_utils", "device_interface")


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
