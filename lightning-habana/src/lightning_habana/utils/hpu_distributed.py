"""Reductions as HCCL has them: sum, min and max; a mean is a sum that is divided."""

from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

_SUPPORTED = {"sum": ReduceOp.SUM, "min": ReduceOp.MIN, "max": ReduceOp.MAX}


def reduce(tensor: torch.Tensor, group: Any = None, reduce_op: Any = "mean") -> torch.Tensor:
    """The reduction of every process's `tensor` (any shape; the same in all), in place for floats and "sum".

    `reduce_op`: "mean" or "avg", "sum", "min", "max", or the `ReduceOp` of that name. Integers have their mean as
    float32. Without a process group the tensor comes back. Raises TypeError for another operation.
    Source: Lightning's Strategy.reduce.
    """
    mean = reduce_op in (ReduceOp.AVG, "mean", "avg") or (
        isinstance(reduce_op, str) and reduce_op.lower() in ("mean", "avg")
    )
    operation = ReduceOp.SUM if mean else _operation(reduce_op)
    if not (dist.is_available() and dist.is_initialized()):
        return tensor
    if mean and not (tensor.is_floating_point() or tensor.is_complex()):
        tensor = tensor.float()
    dist.all_reduce(tensor, op=operation, group=group)
    return tensor.div_(dist.get_world_size(group)) if mean else tensor


def _operation(reduce_op: Any) -> Any:
    if isinstance(reduce_op, str) and reduce_op.lower() in _SUPPORTED:
        return _SUPPORTED[reduce_op.lower()]
    for supported in _SUPPORTED.values():
        if not isinstance(reduce_op, str) and reduce_op == supported:
            return supported
    raise TypeError(
        f"Unsupported ReduceOp {reduce_op}. Supported ops in HCCL are: sum, min, max; mean is made from them."
    )
