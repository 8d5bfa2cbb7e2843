"""Casts to fp8 and products of fp8, as functions."""

from openhpu.interface.hpex.fp8_ops import *  # noqa: F403
