"""The script's own parallelism: a process group of many ranks, of which this process is the first, and no others."""

import contextlib
import functools
import math
import os
import types
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch.distributed import device_mesh, distributed_c10d
from torch.nn.parallel import DistributedDataParallel as DDP, distributed as replicas
from torch.testing._internal.distributed import fake_pg
from torch.utils._python_dispatch import _disable_current_modes as without_modes

from openhpu_predict.errors import PredictError


@contextlib.contextmanager
def ranks(cards: int) -> Iterator[None]:
    """In this context torch.distributed has `cards` ranks, this process is rank 0, and nothing is communicated.

    A process group of any backend is PyTorch's fake one. Results of collectives have the right shapes, and not the
    right values. DistributedDataParallel reduces whole buckets, and its communication hooks are left out. Raises
    PredictError for fewer than one card, for a device mesh that has another number of cards, and if this process
    has a process group already.
    """
    if cards < 1:
        raise PredictError(f"cards is {cards}; expected 1 or more")
    if dist.is_initialized():
        raise PredictError("this process has a process group already; expected none")
    place = {
        "RANK": 0,
        "LOCAL_RANK": 0,
        "WORLD_SIZE": cards,
        "LOCAL_WORLD_SIZE": min(cards, 8),
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": 1,
    }
    start = dist.init_process_group
    helper = distributed_c10d._new_process_group_helper
    init = DDP.__init__

    def initialize(*_args: Any, **_kwargs: Any) -> None:
        start("fake", store=fake_pg.FakeStore(), rank=0, world_size=cards)

    def group(size: int, rank: int, members: Any, _backend: Any, *args: Any, **kwargs: Any) -> Any:
        return helper(size, rank, members, "fake", *args, **(kwargs | {"backend_options": None}))

    def replicate(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        DDP.register_comm_hook(self, None, lambda state, bucket: _exchange(bucket))
        self.register_comm_hook = lambda *_: None
        self.reducer = _Reducer(self.reducer)

    mesh = _checked(device_mesh.init_device_mesh, cards)
    with contextlib.ExitStack() as stack:
        for one in (
            mock.patch.dict(os.environ, {key: str(value) for key, value in place.items()}),
            mock.patch.object(distributed_c10d, "_new_process_group_helper", group),
            mock.patch.object(replicas, "_verify_param_shape_across_processes", lambda *_args, **_kwargs: None),
            mock.patch.object(DDP, "__init__", replicate),
            mock.patch.multiple(device_mesh.DeviceMesh, **dict(_real_methods(device_mesh.DeviceMesh))),
            *(mock.patch.multiple(owner, init_process_group=initialize) for owner in (dist, distributed_c10d)),
            *(mock.patch.multiple(owner, init_device_mesh=mesh) for owner in (dist, device_mesh)),
        ):
            stack.enter_context(one)
        try:
            yield
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()


class _Reducer:
    """DistributedDataParallel's reducer. It keeps its buckets: to make them anew it would read values."""

    def __init__(self, reducer: Any) -> None:
        self._reducer = reducer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reducer, name)

    def _rebuild_buckets(self) -> bool:
        return False


def _exchange(bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    dist.all_reduce(bucket.buffer(), async_op=True)
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


def real(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, outside of fake tensors and of the recording: what it makes has values."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with without_modes():
            return function(*args, **kwargs)

    return call


def _real_methods(owner: type) -> Iterator[tuple[str, Any]]:
    for name, one in vars(owner).items():
        if isinstance(one, staticmethod):
            yield name, staticmethod(real(one.__func__))
        elif isinstance(one, types.FunctionType) and name not in ("__hash__", "__eq__", "__repr__", "size"):
            yield name, real(one)


def _checked(function: Callable[..., Any], cards: int) -> Callable[..., Any]:
    @functools.wraps(function)
    def init_device_mesh(device_type: str, mesh_shape: tuple[int, ...], **kwargs: Any) -> Any:
        if math.prod(mesh_shape) != cards:
            names = kwargs.get("mesh_dim_names") or ()
            sizes = " x ".join(f"{size} {name}" for size, name in zip(mesh_shape, names or [""] * 9, strict=False))
            raise PredictError(
                f"{cards} cards cannot be divided by the script's device mesh: {sizes.strip()} are "
                f"{math.prod(mesh_shape)}; expected --cards {math.prod(mesh_shape)}, or a mesh of {cards}"
            )
        return real(function)(device_type, mesh_shape, **kwargs)

    return init_device_mesh
