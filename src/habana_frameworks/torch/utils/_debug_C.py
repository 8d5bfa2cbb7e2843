"""The functions of Gaudi's compiled module `_debug_C` that have a meaning here. Scripts use `utils.debug`."""

from typing import Any

from habana_frameworks.torch.utils import debug as _debug
from openhpu.interface.debug import refused

__all__ = [name for name in _debug.__all__ if callable(getattr(_debug, name))]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(_debug, name)
    raise refused(__name__, name)
