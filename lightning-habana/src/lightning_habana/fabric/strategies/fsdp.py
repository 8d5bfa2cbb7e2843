"""Several devices, with the model's weights, gradients and optimizer states divided among them."""

from __future__ import annotations

from typing import Any

from torch.distributed.constants import default_pg_timeout

from lightning_habana import roots
from lightning_habana.device_mesh import HPUMesh
from lightning_habana.fabric.plugins.fsdp_precision import HPUFSDPPrecision
from lightning_habana.fabric.strategies.parallel import HPUParallelStrategy


class HPUFSDPStrategy(HPUMesh, HPUParallelStrategy, roots.fabric("strategies").FSDPStrategy):  # type: ignore[misc]
    """FullyShardedDataParallel over `hccl`; "hpu_fsdp". Arguments are FSDPStrategy's.

    Without a precision plugin Fabric's `precision` holds, which is full precision unless it is given.
    """

    strategy_name = "hpu_fsdp"

    def __init__(
        self,
        accelerator: Any = None,
        parallel_devices: Any = None,
        cluster_environment: Any = None,
        precision: Any = None,
        process_group_backend: str = "hccl",
        timeout: Any = default_pg_timeout,
        cpu_offload: Any = None,
        mixed_precision: Any = None,
        auto_wrap_policy: Any = None,
        activation_checkpointing: Any = None,
        activation_checkpointing_policy: Any = None,
        sharding_strategy: Any = "FULL_SHARD",
        state_dict_type: str = "sharded",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            accelerator=accelerator,
            parallel_devices=parallel_devices,
            cluster_environment=cluster_environment,
            precision=precision,
            process_group_backend=process_group_backend,
            timeout=timeout,
            cpu_offload=cpu_offload,
            mixed_precision=mixed_precision,
            auto_wrap_policy=auto_wrap_policy,
            activation_checkpointing=activation_checkpointing,
            activation_checkpointing_policy=activation_checkpointing_policy,
            sharding_strategy=sharding_strategy,
            state_dict_type=state_dict_type,
            **kwargs,
        )

    def _mesh_kwargs(self) -> dict[str, Any]:
        return self._fsdp_kwargs  # type: ignore[no-any-return]

    @property
    def precision(self) -> Any:
        """An HPUFSDPPrecision."""
        return self._precision or HPUFSDPPrecision("32-true")

    @precision.setter
    def precision(self, plugin: Any) -> None:
        if plugin is not None and not isinstance(plugin, HPUFSDPPrecision):
            raise TypeError(f"The FSDP strategy can only work with the `HPUFSDPPrecision` plugin, found {plugin}")
        self._precision = plugin

    @classmethod
    def register_strategies(cls, strategy_registry: Any) -> None:
        """Register "hpu_fsdp", unless it is."""
        if cls.strategy_name not in strategy_registry:
            strategy_registry.register(cls.strategy_name, cls, description=cls.__name__)
