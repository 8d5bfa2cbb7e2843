"""hpu tensors in the queues, pipes and arguments of other processes (torch.multiprocessing).

As with CUDA tensors, the receiver gets no copy. Sender and receiver share the memory, and each sees the other's writes
after it has synchronised. The first time that a tensor is sent, its storage is moved to shared memory, after all
earlier commands; its address changes. The receiver finds it on the device of the same index. A storage that arrives
twice, or comes back, is one storage. The memory is a file without a name, whose descriptor is sent. The system counts
the processes that have it. It lives until the last of them has dropped it or has ended.

The sender must live until the tensor has been received, because it hands out the descriptor.
"""

import multiprocessing.reduction
import os
from collections.abc import Callable
from typing import Any

import torch
from torch.multiprocessing import reductions

from openhpu import _C

_Rebuilt = tuple[Callable[..., Any], tuple[Any, ...]]


def install() -> None:
    """Take over how multiprocessing sends storages. Those of other devices go to PyTorch's function."""
    multiprocessing.reduction.register(torch.UntypedStorage, _reduce)  # type: ignore[arg-type]


def _reduce(storage: torch.UntypedStorage) -> _Rebuilt:
    if storage.device.type != "hpu":
        return reductions.reduce_storage(storage)  # type: ignore[no-any-return, no-untyped-call]
    index = storage.device.index
    if storage.nbytes() == 0:
        return _rebuild_empty, (index,)
    file = _C.share_storage(storage)
    reductions.shared_cache[reductions.fd_id(file)] = reductions.StorageWeakRef(storage)  # type: ignore[no-untyped-call]
    return _rebuild, (multiprocessing.reduction.DupFd(file), storage.nbytes(), index)


def _rebuild_empty(index: int) -> torch.UntypedStorage:
    return torch.UntypedStorage(0, device=torch.device("hpu", index))


def _rebuild(descriptor: Any, nbytes: int, index: int) -> torch.UntypedStorage:
    try:
        file: int = descriptor.detach()
    except (OSError, EOFError) as error:
        raise RuntimeError(
            "An hpu tensor could not be received: the process that sent it has ended. Let a sender live until its "
            "tensors have been received (join it after that, not before), or send a copy on the CPU."
        ) from error
    try:
        key = reductions.fd_id(file)  # type: ignore[no-untyped-call]
        known: torch.UntypedStorage | None = reductions.storage_from_cache(torch.UntypedStorage, key)  # type: ignore[no-untyped-call]
        # Numbers of files are used again.
        if known is not None and known.device.type == "hpu":
            mine = _C.shared_file(known)
            if mine >= 0 and reductions.fd_id(mine) == key:  # type: ignore[no-untyped-call]
                return known
        storage = _C.open_shared_storage(file, nbytes, index)
        reductions.shared_cache[key] = reductions.StorageWeakRef(storage)  # type: ignore[no-untyped-call]
        return storage
    finally:
        os.close(file)
