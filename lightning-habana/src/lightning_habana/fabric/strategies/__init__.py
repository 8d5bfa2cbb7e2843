"""Fabric's strategies."""

from lightning_habana.fabric.strategies.ddp import HPUDDPStrategy
from lightning_habana.fabric.strategies.deepspeed import HPUDeepSpeedStrategy
from lightning_habana.fabric.strategies.fsdp import HPUFSDPStrategy
from lightning_habana.fabric.strategies.parallel import HPUParallelStrategy
from lightning_habana.fabric.strategies.single import SingleHPUStrategy

__all__ = ["HPUDDPStrategy", "HPUDeepSpeedStrategy", "HPUFSDPStrategy", "HPUParallelStrategy", "SingleHPUStrategy"]
