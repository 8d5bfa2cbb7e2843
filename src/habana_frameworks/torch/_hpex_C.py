"""Gaudi's compiled module of extensions, by its functions' names."""

from openhpu.hpex.bindings import NAMES
from openhpu.hpex.bindings import find as __getattr__

__all__ = ["__getattr__", *NAMES]
