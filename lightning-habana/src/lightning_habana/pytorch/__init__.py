"""The names for Trainer."""

from lightning_habana.pytorch.accelerator import HPUAccelerator
from lightning_habana.pytorch.datamodule import HPUDataModule
from lightning_habana.pytorch.plugins import (
    HPUCheckpointIO,
    HPUDeepSpeedPrecisionPlugin,
    HPUFSDPPrecision,
    HPUFSDPPrecisionPlugin,
    HPUPrecisionPlugin,
)
from lightning_habana.pytorch.profiler import HPUProfiler
from lightning_habana.pytorch.strategies import (
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
    "HPUDataModule",
    "HPUDeepSpeedPrecisionPlugin",
    "HPUDeepSpeedStrategy",
    "HPUFSDPPrecision",
    "HPUFSDPPrecisionPlugin",
    "HPUFSDPStrategy",
    "HPUParallelStrategy",
    "HPUPrecisionPlugin",
    "HPUProfiler",
    "SingleHPUStrategy",
]
