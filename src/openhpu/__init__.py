"""OpenHPU: Intel Gaudi's PyTorch device `hpu`, in software, on stock PyTorch.

Importing this package does not load the device; `import torch` does (through its `torch.backends` entry point),
or `import habana_frameworks.torch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openhpu.events import counters, reset_counters

__version__ = "0.1.0"
__all__ = ["__version__", "counters", "reset_counters"]

_FROM_EVENTS = frozenset({"counters", "reset_counters"})


def __getattr__(name: str) -> Any:
    if name in _FROM_EVENTS:
        from openhpu import events

        return getattr(events, name)
    raise AttributeError(f"module 'openhpu' has no attribute {name!r}")
