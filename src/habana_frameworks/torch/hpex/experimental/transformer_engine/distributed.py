"""Checkpointed activations."""

from openhpu.interface.hpex.transformer_engine import activation_checkpointing as activation_checkpointing
