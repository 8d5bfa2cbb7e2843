"""Integers of 64 bits as on a Gaudi, in recipes: results wrap to 32 bits and are counted (OPENHPU_INT64)."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from openhpu.compiler.program.out_of_range import counts


def wrapped(overload: torch._ops.OpOverload, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls `function`, which stands for `overload`, and wraps the int64 elements that it returns or writes."""
    results = function(*args, **kwargs)
    formals = overload._schema.arguments
    given = [*zip(formals, args, strict=False), *((f, kwargs[f.name]) for f in formals if f.name in kwargs)]
    written = [leaf for f, value in given if f.alias_info and f.alias_info.is_write for leaf in tree_leaves(value)]
    for tensor in written:
        if (narrow := _wrap(tensor)) is not tensor:
            tensor.copy_(narrow)
    if written and any(result is tensor for result in tree_leaves(results) for tensor in written):
        return results
    return tree_map(_wrap, results)


def _wrap(tensor: Any) -> Any:
    if not isinstance(tensor, torch.Tensor) or tensor.dtype is not torch.int64:
        return tensor
    result = tensor.to(torch.int32).to(torch.int64)
    counts.overflowing.append((counts.node, (result != tensor).sum()))
    return result
