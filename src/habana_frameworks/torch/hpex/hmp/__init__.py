"""Habana Mixed Precision."""

from openhpu.interface.hmp import convert as convert, disable_casts as disable_casts
