"""`import habana_frameworks.torch.distributed.hccl`: the backend `hccl`, and this process's place in its job."""

from openhpu.integration.distributed import initialize_distributed_hpu
from openhpu.integration.distributed.launchers import setup_module_id as _setup_module_id

initialize_distributed_hpu()

__all__ = ["_setup_module_id", "initialize_distributed_hpu"]
