"""Several devices, with a replica of the model on each: "hpu_parallel", and the base of HPUDDPStrategy."""

from typing import Any

from lightning_habana import roots
from lightning_habana.checkpoint_io import HPUCheckpoints
from lightning_habana.pytorch.strategies.evaluation import HPUEvaluation
from lightning_habana.strategies import HPUProcesses

_ddp: Any = roots.pytorch("strategies.ddp")


class HPUParallelStrategy(HPUProcesses, HPUEvaluation, HPUCheckpoints, _ddp.DDPStrategy):  # type: ignore[misc]
    """DistributedDataParallel over `hccl`; "hpu_parallel". May be subclassed; every strategy of several devices is one.

    Arguments are DDPStrategy's; those that it does not know are DistributedDataParallel's (`bucket_cap_mb`,
    `gradient_as_bucket_view`, `static_graph`, `find_unused_parameters`). Gradients are always synchronised.
    """

    strategy_name = "hpu_parallel"

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
