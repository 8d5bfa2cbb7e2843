"""OPENHPU_CHECK_REPLICAS=N: every N steps the ranks of a process group compare their replicas.

That is, under DistributedDataParallel, the parameters and buffers with which a forward begins (buffers, if it
broadcasts them), and of an optimizer's parameters the local parts of DTensors along those mesh dimensions on which they
are replicated (fully_shard over a two-dimensional mesh). Ranks compare checksums of the bytes: one bit counts.
"""

import itertools
import zlib
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


class ReplicasDiffer(RuntimeError):
    """A parameter or buffer that ranks should have in common has other bits on some of them."""


def compare(tensors: Iterable[tuple[str, Tensor]], group: Any, when: str) -> None:
    """Compare each named tensor's bits between the ranks of `group`, all of which call this with tensors of the same
    names. Raises ReplicasDiffer, on every rank, for the first that differs."""
    import torch.distributed as dist

    named = list(tensors)
    found = [(name, _checksum(tensor)) for name, tensor in named]
    everybody: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(everybody, found, group=group)
    for by_rank in itertools.zip_longest(*everybody):
        others = [rank for rank, entry in enumerate(by_rank) if entry != by_rank[0]]
        if others:
            ranks = [dist.get_global_rank(group, rank) for rank in others] if group is not None else others
            first = 0 if group is None else dist.get_global_rank(group, 0)
            name = next(entry[0] for entry in by_rank if entry is not None)
            raise ReplicasDiffer(
                f"OPENHPU_CHECK_REPLICAS: {when} {name!r} differs between rank {first} and "
                f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}, which should have the same bits: it was "
                "changed on some ranks only, or by something that rounds differently on each"
            )


def _checksum(tensor: Tensor) -> tuple[tuple[int, ...], int]:
    host = tensor.detach().cpu().contiguous()
    return tuple(host.shape), zlib.crc32(host.reshape(-1).view(torch.uint8).numpy().data)


def install(steps: int) -> None:
    """From now on compare every `steps` steps."""
    from torch.nn.modules.module import register_module_module_registration_hook
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def note(owner: Any, name: str, module: Any) -> None:
        from torch.nn.parallel import DistributedDataParallel

        if name == "module" and isinstance(owner, DistributedDataParallel) and module is not None:
            count = itertools.count(1)
            module.register_forward_pre_hook(lambda *_: _before_forward(owner, next(count), steps))

    register_module_module_registration_hook(note)
    counts: dict[int, int] = {}

    def after_step(optimizer: Any, *_: Any) -> None:
        counts[id(optimizer)] = counts.get(id(optimizer), 0) + 1
        if counts[id(optimizer)] % steps == 0:
            _after_step(optimizer, counts[id(optimizer)])

    register_optimizer_step_post_hook(after_step)


def _before_forward(ddp: Any, forward: int, steps: int) -> None:
    if not ddp.training or forward % steps or ddp.process_group.size() < 2:
        return
    kept = ddp.parameters_to_ignore
    tensors = [(name, p) for name, p in ddp.module.named_parameters() if name not in kept]
    if ddp.broadcast_buffers:
        tensors += [(name, b) for name, b in ddp.module.named_buffers() if name not in kept]
    compare(tensors, ddp.process_group, f"before forward {forward}")


def _after_step(optimizer: Any, step: int) -> None:
    from torch.distributed.tensor import DTensor, Replicate

    groups: dict[Any, list[tuple[str, Tensor]]] = {}
    for g, group in enumerate(optimizer.param_groups):
        names = group.get("param_names") or [f"parameter {i} of group {g}" for i in range(len(group["params"]))]
        for name, p in zip(names, group["params"], strict=True):
            if isinstance(p, DTensor):
                for dim, placement in enumerate(p.placements):
                    if isinstance(placement, Replicate) and p.device_mesh.size(dim) > 1:
                        groups.setdefault(p.device_mesh.get_group(dim), []).append((name, p.to_local()))
    for process_group, tensors in groups.items():
        compare(tensors, process_group, f"after step {step}")
