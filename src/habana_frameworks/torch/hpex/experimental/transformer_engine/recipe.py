"""Recipes of scales."""

from openhpu.interface.hpex.transformer_engine import DelayedScaling, Format

__all__ = ["DelayedScaling", "Format"]
