"""Recipes of scales."""

from openhpu.interface.hpex.transformer_engine import DelayedScaling as DelayedScaling, Format as Format
