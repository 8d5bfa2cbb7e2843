"""Several devices, with a replica of the model on each: "hpu_parallel", and the base of HPUDDPStrategy."""

from typing import Any

from lightning_habana import roots
from lightning_habana.checkpoint_io import HPUCheckpoints
from lightning_habana.strategies import HPUProcesses

_Base: Any = roots.fabric("strategies").DDPStrategy


class HPUParallelStrategy(HPUProcesses, HPUCheckpoints, _Base):  # type: ignore[misc]
    """DistributedDataParallel over `hccl`; "hpu_parallel". May be subclassed; every strategy of several devices is one.

    Arguments are DDPStrategy's; those that it does not know are DistributedDataParallel's.
    """

    strategy_name = "hpu_parallel"

    def _determine_ddp_device_ids(self) -> None:
        return None
