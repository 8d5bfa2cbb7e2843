"""Habana Mixed Precision."""

from openhpu.interface.hmp import convert, disable_casts

__all__ = ["convert", "disable_casts"]
