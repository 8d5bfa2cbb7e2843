"""Several devices, with the model's weights, gradients and optimizer states divided among them."""

from lightning_habana import roots
from lightning_habana.fabric.plugins.fsdp_precision import HPUFSDPPrecision
from lightning_habana.fabric.strategies.parallel import HPUParallelStrategy
from lightning_habana.sharding import HPUSharding, precision_of
from lightning_habana.strategies import HPUProcesses


class HPUFSDPStrategy(HPUSharding, HPUProcesses, roots.fabric("strategies").FSDPStrategy):  # type: ignore[misc]
    """FullyShardedDataParallel over `hccl`; "hpu_fsdp". Arguments are FSDPStrategy's.

    Without a precision plugin Fabric's `precision` holds, which is full precision unless it is given.
    """

    strategy_name = "hpu_fsdp"
    _arguments = "_fsdp_kwargs"
    precision = precision_of("_precision", HPUFSDPPrecision)


# Scripts ask whether a strategy is for several devices; it does not inherit DistributedDataParallel's methods.
HPUParallelStrategy.register(HPUFSDPStrategy)
