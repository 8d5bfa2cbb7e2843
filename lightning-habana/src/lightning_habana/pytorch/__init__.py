"""The names for Trainer."""

from lightning_habana.pytorch.accelerator import HPUAccelerator as HPUAccelerator
from lightning_habana.pytorch.datamodule import HPUDataModule as HPUDataModule
from lightning_habana.pytorch.plugins import (
    HPUCheckpointIO as HPUCheckpointIO,
    HPUDeepSpeedPrecisionPlugin as HPUDeepSpeedPrecisionPlugin,
    HPUFSDPPrecision as HPUFSDPPrecision,
    HPUFSDPPrecisionPlugin as HPUFSDPPrecisionPlugin,
    HPUPrecisionPlugin as HPUPrecisionPlugin,
)
from lightning_habana.pytorch.profiler import HPUProfiler as HPUProfiler
from lightning_habana.pytorch.strategies import (
    HPUDDPStrategy as HPUDDPStrategy,
    HPUDeepSpeedStrategy as HPUDeepSpeedStrategy,
    HPUFSDPStrategy as HPUFSDPStrategy,
    HPUParallelStrategy as HPUParallelStrategy,
    SingleHPUStrategy as SingleHPUStrategy,
)
