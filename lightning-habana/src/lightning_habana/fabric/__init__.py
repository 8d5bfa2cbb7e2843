"""The names for Fabric."""

from lightning_habana.fabric.accelerator import HPUAccelerator as HPUAccelerator
from lightning_habana.fabric.plugins import (
    HPUCheckpointIO as HPUCheckpointIO,
    HPUFSDPPrecision as HPUFSDPPrecision,
    HPUPrecision as HPUPrecision,
)
from lightning_habana.fabric.strategies import (
    HPUDDPStrategy as HPUDDPStrategy,
    HPUDeepSpeedStrategy as HPUDeepSpeedStrategy,
    HPUFSDPStrategy as HPUFSDPStrategy,
    HPUParallelStrategy as HPUParallelStrategy,
    SingleHPUStrategy as SingleHPUStrategy,
)
