"""Trainer's plugins."""

from lightning_habana.pytorch.plugins.deepspeed_precision import HPUDeepSpeedPrecisionPlugin
from lightning_habana.pytorch.plugins.fsdp_precision import HPUFSDPPrecision, HPUFSDPPrecisionPlugin
from lightning_habana.pytorch.plugins.io_plugin import HPUCheckpointIO
from lightning_habana.pytorch.plugins.precision import HPUPrecisionPlugin

__all__ = [
    "HPUCheckpointIO",
    "HPUDeepSpeedPrecisionPlugin",
    "HPUFSDPPrecision",
    "HPUFSDPPrecisionPlugin",
    "HPUPrecisionPlugin",
]
