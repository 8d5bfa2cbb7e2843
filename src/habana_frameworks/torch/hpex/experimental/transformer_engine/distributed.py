"""Checkpointed activations."""

from openhpu.interface.hpex.transformer_engine import activation_checkpointing

__all__ = ["activation_checkpointing"]
