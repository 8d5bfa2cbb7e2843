"""Fused optimizers."""

from openhpu.hpex.optimizers import FusedAdamW

__all__ = ["FusedAdamW"]
