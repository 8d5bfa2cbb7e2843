"""What every strategy of several processes is."""

from __future__ import annotations

from typing import Any

from lightning_habana import roots
from lightning_habana.strategies import HPUProcesses


class HPUParallelStrategy(HPUProcesses, roots.fabric("strategies.parallel").ParallelStrategy):  # type: ignore[misc]
    """Base of the strategies for several devices; made by itself, and as "hpu_parallel", it is an HPUDDPStrategy."""

    strategy_name = "hpu_parallel"

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is HPUParallelStrategy:
            from lightning_habana.fabric.strategies.ddp import HPUDDPStrategy

            cls = HPUDDPStrategy
        return super().__new__(cls)

    all_reduce = HPUProcesses.reduce

    @classmethod
    def register_strategies(cls, strategy_registry: Any) -> None:
        """Register the class under its name, unless there is one."""
        if cls.strategy_name not in strategy_registry:
            strategy_registry.register(cls.strategy_name, cls, description=cls.__name__)
