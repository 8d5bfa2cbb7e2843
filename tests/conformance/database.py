"""The cases that the installed torch's databases hold: operators, modules, optimizers."""

from __future__ import annotations

import functools
import hashlib
import sys
from dataclasses import dataclass
from typing import Any

import torch

FAMILIES = ("op_forward", "op_backward", "module", "optimizer")

# Short names of dtypes, in the order of the table's columns.
DTYPES: dict[torch.dtype, str] = {
    torch.float32: "f32",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.float64: "f64",
    torch.bool: "b8",
    torch.uint8: "u8",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.uint64: "u64",
    torch.complex32: "c32",
    torch.complex64: "c64",
    torch.complex128: "c128",
    torch.float8_e4m3fn: "f8e4m3",
    torch.float8_e5m2: "f8e5m2",
    torch.float8_e4m3fnuz: "f8e4m3z",
    torch.float8_e5m2fnuz: "f8e5m2z",
}


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@dataclass(frozen=True, order=True)
class Case:
    """One entry of a database with one dtype, in one family. `str(case)` names it everywhere."""

    family: str
    name: str
    dtype: str

    def __str__(self) -> str:
        return f"{self.family}:{self.name}:{self.dtype}"

    @classmethod
    def parse(cls, text: str) -> Case:
        family, name, dtype = text.split(":")
        return cls(family, name, dtype)

    @property
    def torch_dtype(self) -> torch.dtype:
        return getattr(torch, self.dtype)

    @property
    def seed(self) -> int:
        return int.from_bytes(hashlib.sha256(str(self).encode()).digest()[:4], "big")

    def share(self) -> float:
        """A number in [0, 1) that depends on the case's name only, to choose a part of all cases."""
        return self.seed / 2**32


def _unseeded(op: Any, *args: Any, **kwargs: Any) -> Any:
    return op(*args, **kwargs)


@functools.cache
def operators() -> dict[str, Any]:
    """The operators by name. Those whose entry fixes the seed at 42 draw from the seed that the suite sets."""
    from torch.testing._internal import common_methods_invocations as invocations

    op_db = invocations.op_db
    for module in [m for n, m in sys.modules.items() if n.startswith("torch.testing._internal.")]:
        if hasattr(module, "wrapper_set_seed"):
            module.wrapper_set_seed = _unseeded  # type: ignore[attr-defined]
    return {op.full_name: op for op in op_db}


@functools.cache
def modules() -> dict[str, Any]:
    from torch.testing._internal.common_modules import module_db

    return {info.name: info for info in module_db}


@functools.cache
def optimizers() -> dict[str, Any]:
    from torch.testing._internal.common_optimizers import optim_db

    return {info.name: info for info in optim_db}


# torch.optim is tested by PyTorch in float32 only; these are what a parameter may also be.
OPTIMIZER_DTYPES = (torch.float32, torch.float64, torch.bfloat16)


def _sorted(dtypes: Any) -> list[str]:
    order = list(DTYPES)
    return [dtype_name(d) for d in sorted(dtypes, key=lambda d: order.index(d) if d in order else len(order))]


def cases(families: tuple[str, ...] = FAMILIES) -> list[Case]:
    """All cases of the families, in a fixed order. The dtypes are those of the databases' HPU column."""
    found: list[Case] = []
    for family in families:
        if family == "optimizer":
            dtypes = dict.fromkeys(optimizers(), OPTIMIZER_DTYPES)
        elif family in FAMILIES:
            entries = modules() if family == "module" else operators()
            dtypes = {name: set(entry.supported_dtypes("hpu")) for name, entry in entries.items()}
        else:
            raise ValueError(f"unknown family {family!r}; known: {', '.join(FAMILIES)}")
        if family == "op_backward":
            for name, op in operators().items():
                dtypes[name] &= set(op.supported_backward_dtypes("hpu"))
        found += [Case(family, name, d) for name, own in dtypes.items() for d in _sorted(own)]
    return found
