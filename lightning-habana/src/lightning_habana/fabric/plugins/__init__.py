"""Fabric's plugins."""

from lightning_habana.fabric.plugins.fsdp_precision import HPUFSDPPrecision
from lightning_habana.fabric.plugins.io_plugin import HPUCheckpointIO
from lightning_habana.fabric.plugins.precision import HPUPrecision

__all__ = ["HPUCheckpointIO", "HPUFSDPPrecision", "HPUPrecision"]
