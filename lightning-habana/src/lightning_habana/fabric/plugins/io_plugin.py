"""Checkpoints of Fabric: files that load on any device."""

from lightning_habana.checkpoint_io import HPUCheckpointIO as HPUCheckpointIO
