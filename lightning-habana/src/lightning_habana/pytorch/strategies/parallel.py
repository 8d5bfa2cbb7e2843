"""What every strategy of several processes is."""

from __future__ import annotations

from typing import Any

from lightning_habana import roots
from lightning_habana.checkpoint_io import HPUCheckpoints
from lightning_habana.pytorch.strategies.evaluation import HPUEvaluation
from lightning_habana.strategies import HPUProcesses

_Base: Any = roots.pytorch("strategies").ParallelStrategy


class HPUParallelStrategy(HPUProcesses, HPUEvaluation, HPUCheckpoints, _Base):  # type: ignore[misc]
    """Base of the strategies for several devices.

    Made by itself, and as "hpu_parallel", it is an HPUDDPStrategy: gradients are always synchronised.
    """

    strategy_name = "hpu_parallel"

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is HPUParallelStrategy:
            from lightning_habana.pytorch.strategies.ddp import HPUDDPStrategy

            cls = HPUDDPStrategy
        return super().__new__(cls)
