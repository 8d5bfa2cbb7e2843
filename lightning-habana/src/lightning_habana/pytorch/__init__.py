"""The names for Trainer."""

from lightning_habana.pytorch import plugins, strategies
from lightning_habana.pytorch.accelerator import HPUAccelerator
from lightning_habana.pytorch.datamodule import HPUDataModule
from lightning_habana.pytorch.plugins import *  # noqa: F403
from lightning_habana.pytorch.profiler import HPUProfiler
from lightning_habana.pytorch.strategies import *  # noqa: F403

__all__ = ["HPUAccelerator", "HPUDataModule", "HPUProfiler", *plugins.__all__, *strategies.__all__]
