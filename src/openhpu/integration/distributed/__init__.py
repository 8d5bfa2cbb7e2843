"""torch.distributed on hpu: the backend `hccl`, and launchers' data of a process."""

from openhpu.integration.distributed.launchers import initialize_distributed_hpu, setup_module_id

__all__ = ["initialize_distributed_hpu", "setup_module_id"]
