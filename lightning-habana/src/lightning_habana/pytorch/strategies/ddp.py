"""Several devices, with a replica of the model on each."""

from __future__ import annotations

from typing import Any

from lightning_habana import roots
from lightning_habana.pytorch.strategies.parallel import HPUParallelStrategy

_ddp: Any = roots.pytorch("strategies.ddp")


class HPUDDPStrategy(HPUParallelStrategy, _ddp.DDPStrategy):  # type: ignore[misc]
    """DistributedDataParallel over `hccl`; "hpu_ddp", and what several devices have by default.

    Arguments are DDPStrategy's; those that it does not know are DistributedDataParallel's (`bucket_cap_mb`,
    `gradient_as_bucket_view`, `static_graph`, `find_unused_parameters`).
    """

    strategy_name = "hpu_ddp"

    def determine_ddp_device_ids(self) -> None:
        """None: a process has one device, whatever its index."""
        return None

    def _register_ddp_hooks(self) -> None:
        # DDPStrategy registers them on CUDA only, and would drop them here without a word.
        if self._ddp_comm_hook is not None:
            _ddp._register_ddp_comm_hook(
                model=self.model,
                ddp_comm_state=self._ddp_comm_state,
                ddp_comm_hook=self._ddp_comm_hook,
                ddp_comm_wrapper=self._ddp_comm_wrapper,
            )

    @classmethod
    def register_strategies(cls, strategy_registry: Any) -> None:
        """Register "hpu_parallel" and "hpu_ddp", unless they are."""
        for name in (HPUParallelStrategy.strategy_name, cls.strategy_name):
            if name not in strategy_registry:
                strategy_registry.register(name, cls, description=cls.__name__)
