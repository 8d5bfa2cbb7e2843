"""Several devices, with the model's weights, gradients and optimizer states divided among them."""

from __future__ import annotations

from typing import Any

from lightning_habana import roots
from lightning_habana.fabric.plugins.fsdp_precision import HPUFSDPPrecision
from lightning_habana.fabric.strategies.parallel import HPUParallelStrategy
from lightning_habana.sharding import HPUSharding
from lightning_habana.strategies import HPUProcesses


class HPUFSDPStrategy(HPUSharding, HPUProcesses, roots.fabric("strategies").FSDPStrategy):  # type: ignore[misc]
    """FullyShardedDataParallel over `hccl`; "hpu_fsdp". Arguments are FSDPStrategy's.

    Without a precision plugin Fabric's `precision` holds, which is full precision unless it is given.
    """

    strategy_name = "hpu_fsdp"

    def _fsdp_arguments(self) -> dict[str, Any]:
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


# Scripts ask whether a strategy is for several devices; it does not inherit DistributedDataParallel's methods.
HPUParallelStrategy.register(HPUFSDPStrategy)
