"""The cost of a user's operator from the account of its kernel in TPC-C, which the distribution openhpu-tpc gives."""

import importlib.util
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from openhpu.interface.custom_ops import user_operators

_MOST_ELEMENTS = 1 << 26  # of all tensors together; the kernel runs once on tensors of these sizes
_PARAMETERS = bytes(256)  # their values are not known here, and hardly change what a kernel does
_NARROWED = {torch.int64: torch.int32, torch.bool: torch.int8}  # as on a Gaudi

Described = tuple[tuple[tuple[int, ...], torch.dtype], ...]


def cycles(name: str, operands: Sequence[torch.Tensor], outs: Sequence[torch.Tensor]) -> float:
    """Cycles of one processor (TPC) that the operator `namespace::name` takes; 0 if its kernel gives no account.

    The kernel's variant with checks runs once for tensors of these sizes and dtypes, with zeros.
    """
    guid = next((row["guid"] for row in user_operators() if row["schema"].partition(".")[0] == name), None)
    if guid is None or importlib.util.find_spec("openhpu_tpc") is None:
        return 0.0
    return _cycles(guid, os.environ.get("GC_KERNEL_PATH", ""), _described(operands), _described(outs))


def _described(tensors: Sequence[torch.Tensor]) -> Described:
    return tuple((tuple(one.shape), _NARROWED.get(one.dtype, one.dtype)) for one in tensors)


@lru_cache(maxsize=1024)
def _cycles(guid: str, listed: str, operands: Described, outs: Described) -> float:
    from openhpu_tpc import account
    from openhpu_tpc.loading import KernelError

    if sum(torch.Size(sizes).numel() for sizes, _ in (*operands, *outs)) > _MOST_ELEMENTS:
        return 0.0
    library = _library(guid, listed)
    if library is None:
        return 0.0
    with unset_fake_temporarily():
        inputs, outputs = ([torch.zeros(sizes, dtype=dtype) for sizes, dtype in group] for group in (operands, outs))
        try:
            return account.cycles(library.check(guid, inputs, outputs, _PARAMETERS).account)
        except KernelError:
            return 0.0


def _library(guid: str, listed: str) -> Any:
    """The first library of GC_KERNEL_PATH that has the guid; None if there is none."""
    from openhpu_tpc.loading import KernelError, Library

    for path in filter(os.path.isfile, listed.split(":")):
        try:
            library = Library(Path(path))
            if guid in library.guids():
                return library
        except (OSError, AttributeError, KernelError):  # not of `openhpu tpc build`
            continue
    return None
