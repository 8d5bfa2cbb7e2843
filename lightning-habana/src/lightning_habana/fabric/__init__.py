"""The names for Fabric."""

from lightning_habana.fabric.accelerator import HPUAccelerator
from lightning_habana.fabric.plugins import HPUCheckpointIO, HPUFSDPPrecision, HPUPrecision
from lightning_habana.fabric.strategies import (
    HPUDDPStrategy,
    HPUDeepSpeedStrategy,
    HPUFSDPStrategy,
    HPUParallelStrategy,
    SingleHPUStrategy,
)

__all__ = [
    "HPUAccelerator",
    "HPUCheckpointIO",
    "HPUDDPStrategy",
    "HPUDeepSpeedStrategy",
    "HPUFSDPPrecision",
    "HPUFSDPStrategy",
    "HPUParallelStrategy",
    "HPUPrecision",
    "SingleHPUStrategy",
]
