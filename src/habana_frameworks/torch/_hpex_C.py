"""Gaudi's compiled module of extensions, by its functions' names."""

from openhpu.interface.hpex.bindings import NAMES, find as __getattr__

__all__ = ["__getattr__", *NAMES]
