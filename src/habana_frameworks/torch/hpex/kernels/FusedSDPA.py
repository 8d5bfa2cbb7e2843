"""Fused attention, and how heads are grouped for it."""

from openhpu.interface.hpex.attention import *  # noqa: F403
