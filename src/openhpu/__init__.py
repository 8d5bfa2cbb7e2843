"""OpenHPU: Intel Gaudi's PyTorch device `hpu`, in software, on stock PyTorch.

Importing this package does not load the device; `import torch` does (through its `torch.backends` entry point),
or `import habana_frameworks.torch`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openhpu.compiler.client.client import recipes, recompilations, wait_for_recipes
    from openhpu.interface.custom_ops import custom_kernel
    from openhpu.observe.events import counters, phase, reset_counters
    from openhpu.testing.expect import expect

__version__ = "0.2.0"
__all__ = [
    "__version__",
    "counters",
    "custom_kernel",
    "expect",
    "phase",
    "recipes",
    "recompilations",
    "reset_counters",
    "wait_for_recipes",
]

# Modules that scripts reach without importing them.
_MODULES = ("dynamo", "events", "hpex", "hpu")
_FROM = {
    **dict.fromkeys(("counters", "phase", "reset_counters"), "observe.events"),
    **dict.fromkeys(("recipes", "recompilations", "wait_for_recipes"), "compiler.client.client"),
    "custom_kernel": "interface.custom_ops",
    "expect": "testing.expect",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name in _FROM:
        return getattr(importlib.import_module(f"openhpu.{_FROM[name]}"), name)
    if name in _MODULES:
        return importlib.import_module(f"openhpu.{name}")
    if name == "_C":  # one for each PyTorch; asked for before it is loaded
        import torch

        from openhpu.integration import compat

        return compat.core(torch.__version__)
    remedy = "; use an HPU graph of the whole step (docs/graphs.md)" if name == "compile_step" else ""
    raise AttributeError(f"module 'openhpu' has no attribute {name!r}{remedy}")
