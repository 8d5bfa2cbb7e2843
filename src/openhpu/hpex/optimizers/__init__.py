"""Optimizers under Gaudi's names."""

from openhpu.hpex.optimizers.adamw import FusedAdamW

__all__ = ["FusedAdamW"]
