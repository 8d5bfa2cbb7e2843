"""The names for Fabric."""

from lightning_habana.fabric.accelerator import HPUAccelerator as HPUAccelerator
from lightning_habana.fabric.plugins import *  # noqa: F403
from lightning_habana.fabric.strategies import *  # noqa: F403
