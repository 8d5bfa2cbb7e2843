"""Optimizers for several ranks: a step is the same on each."""

from openhpu.hpex.optimizers import FusedAdamW

__all__ = ["FusedAdamW"]
