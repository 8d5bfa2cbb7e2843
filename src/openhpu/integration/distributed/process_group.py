"""The backend `hccl` of torch.distributed: Gloo communicates, and between ranks of one machine memory that all have."""

import sys
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from openhpu import _C, settings
from openhpu.integration.distributed import interfaces
from openhpu.observe import differences

NAME = "hccl"


def register() -> None:
    """Tell torch.distributed of `hccl`, once: `init_process_group()` uses it for tensors on hpu. Creates nothing."""
    if dist.is_available() and NAME.upper() not in dist.Backend._plugins:
        dist.Backend.register_backend(NAME, _create, extended_api=True, devices=["hpu"])


def _create(options: Any, backend_options: Any) -> dist.Backend:
    """A group's backend for hpu tensors, from PyTorch's description of the group.

    `backend_options`: not used; `hccl` has none.
    """
    name = "PT_HPU_ENABLE_LAZY_COLLECTIVES"
    chosen = settings.get(name) if settings.is_set(name) else None
    _C.set_level("lazy-collectives", differences.level("lazy-collectives", chosen))
    timeout = options.timeout
    if not isinstance(timeout, timedelta):
        timeout = timedelta(seconds=timeout)
    store = _C.interruptible(options.store)
    transport = _gloo(store, options.group_rank, options.group_size, timeout, interfaces.device(options.store))
    # PyTorch names no ranks for the default group; Gloo reads them where a group is split.
    transport.options.global_ranks_in_group = options.global_ranks_in_group or list(range(options.group_size))
    transport.options.group_name = options.group_id
    return _C.ProcessGroupHCCL(transport, store, settings.get("OPENHPU_NODE_COLLECTIVES"))  # type: ignore[no-any-return]


def _gloo(store: Any, rank: int, size: int, timeout: timedelta, device: Any) -> Any:
    if device is None:
        return dist.ProcessGroupGloo(store, rank, size, timeout=timeout)
    options: Any = dist.ProcessGroupGloo._Options()  # type: ignore[attr-defined]
    options._timeout = timeout
    options._devices = [device]
    return dist.ProcessGroupGloo(store, rank, size, options)


def leave_after_error() -> None:
    """At the end of a process that an exception ends: other ranks may never answer what it has queued."""
    if getattr(sys, "last_exc", None) is not None or getattr(sys, "last_value", None) is not None:
        _C.abandon_collectives()
