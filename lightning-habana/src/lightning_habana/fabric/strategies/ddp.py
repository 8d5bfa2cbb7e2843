"""Several devices, with a replica of the model on each."""

from __future__ import annotations

from typing import Any

from torch.distributed.constants import default_pg_timeout

from lightning_habana import roots
from lightning_habana.fabric.plugins.io_plugin import HPUCheckpointIO
from lightning_habana.fabric.strategies.parallel import HPUParallelStrategy


class HPUDDPStrategy(HPUParallelStrategy, roots.fabric("strategies").DDPStrategy):  # type: ignore[misc]
    """DistributedDataParallel over `hccl`; "hpu_ddp", and what several devices have by default.

    Arguments are DDPStrategy's; those that it does not know are DistributedDataParallel's.
    """

    strategy_name = "hpu_ddp"

    def __init__(
        self,
        accelerator: Any = None,
        parallel_devices: Any = None,
        cluster_environment: Any = None,
        checkpoint_io: Any = None,
        precision: Any = None,
        process_group_backend: str = "hccl",
        timeout: Any = default_pg_timeout,
        start_method: str = "popen",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            accelerator=accelerator,
            parallel_devices=parallel_devices,
            cluster_environment=cluster_environment,
            checkpoint_io=checkpoint_io or HPUCheckpointIO(),
            precision=precision,
            process_group_backend=process_group_backend,
            timeout=timeout,
            start_method=start_method,
            **kwargs,
        )

    def _determine_ddp_device_ids(self) -> None:
        return None

    @classmethod
    def register_strategies(cls, strategy_registry: Any) -> None:
        """Register "hpu_parallel" and "hpu_ddp", unless they are."""
        for name in (HPUParallelStrategy.strategy_name, cls.strategy_name):
            if name not in strategy_registry:
                strategy_registry.register(name, cls, description=cls.__name__)
