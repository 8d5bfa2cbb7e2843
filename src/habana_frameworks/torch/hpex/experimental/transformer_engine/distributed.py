"""Checkpointed activations."""

from openhpu.hpex.transformer_engine import activation_checkpointing

__all__ = ["activation_checkpointing"]
