"""Several devices, with a replica of the model on each."""

from __future__ import annotations

from lightning_habana import roots
from lightning_habana.checkpoint_io import HPUCheckpoints
from lightning_habana.fabric.strategies.parallel import HPUParallelStrategy


class HPUDDPStrategy(HPUCheckpoints, HPUParallelStrategy, roots.fabric("strategies").DDPStrategy):  # type: ignore[misc]
    """DistributedDataParallel over `hccl`; "hpu_ddp", and what several devices have by default.

    Arguments are DDPStrategy's; those that it does not know are DistributedDataParallel's.
    """

    strategy_name = "hpu_ddp"

    def _determine_ddp_device_ids(self) -> None:
        return None
