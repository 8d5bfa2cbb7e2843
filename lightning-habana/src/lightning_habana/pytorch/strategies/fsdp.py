"""Several devices, with the model's weights, gradients and optimizer states divided among them."""

from typing import Any

from lightning_habana import roots
from lightning_habana.checkpoint_io import HPUCheckpoints
from lightning_habana.pytorch.plugins.fsdp_precision import HPUFSDPPrecision
from lightning_habana.pytorch.strategies.evaluation import HPUEvaluation
from lightning_habana.pytorch.strategies.parallel import HPUParallelStrategy
from lightning_habana.sharding import HPUSharding, precision_of
from lightning_habana.strategies import HPUProcesses

_Base: Any = roots.pytorch("strategies").FSDPStrategy


class HPUFSDPStrategy(HPUSharding, HPUProcesses, HPUEvaluation, HPUCheckpoints, _Base):  # type: ignore[misc]
    """FullyShardedDataParallel over `hccl`; "hpu_fsdp".

    Arguments are FSDPStrategy's. Without a precision plugin the Trainer's `precision` holds, which is full precision
    unless it is given.
    """

    strategy_name = "hpu_fsdp"
    _arguments = "kwargs"
    precision_plugin = precision_of("_precision_plugin", HPUFSDPPrecision)


# Scripts ask whether a strategy is for several devices; it does not inherit DistributedDataParallel's methods.
HPUParallelStrategy.register(HPUFSDPStrategy)
