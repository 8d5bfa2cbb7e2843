"""Checkpoints of Trainer: files that load on any device."""

from __future__ import annotations

from lightning_habana.checkpoint_io import HPUCheckpointIO

__all__ = ["HPUCheckpointIO"]
