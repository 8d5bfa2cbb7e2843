"""HPU support for Lightning: `import lightning_habana`, and Trainer and Fabric know "hpu"."""

from lightning_habana import registration
from lightning_habana.__about__ import __version__
from lightning_habana.pytorch import (
    HPUAccelerator,
    HPUCheckpointIO,
    HPUDDPStrategy,
    HPUDeepSpeedPrecisionPlugin,
    HPUDeepSpeedStrategy,
    HPUFSDPPrecision,
    HPUFSDPPrecisionPlugin,
    HPUFSDPStrategy,
    HPUParallelStrategy,
    HPUPrecisionPlugin,
    HPUProfiler,
    SingleHPUStrategy,
)

HPU_AVAILABLE = HPUAccelerator.is_available()

registration.register()

__all__ = [
    "HPU_AVAILABLE",
    "HPUAccelerator",
    "HPUCheckpointIO",
    "HPUDDPStrategy",
    "HPUDeepSpeedPrecisionPlugin",
    "HPUDeepSpeedStrategy",
    "HPUFSDPPrecision",
    "HPUFSDPPrecisionPlugin",
    "HPUFSDPStrategy",
    "HPUParallelStrategy",
    "HPUPrecisionPlugin",
    "HPUProfiler",
    "SingleHPUStrategy",
    "__version__",
]
