"""Recipes of scales."""

from openhpu.hpex.transformer_engine import DelayedScaling, Format

__all__ = ["DelayedScaling", "Format"]
