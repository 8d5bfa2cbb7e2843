"""Fused optimizers."""

from openhpu.interface.hpex.optimizers import *  # noqa: F403
