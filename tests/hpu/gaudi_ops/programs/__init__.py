"""Programs for a Gaudi by families: what each calls, and what it gives by a formula on the CPU device.

A family is a function that returns programs. `test_programs.py` runs a family's programs together, so that a recipe or
a graph of torch.compile holds all of them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

ops = torch.ops.hpu
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
LARGEST = {E4M3: 240.0, E5M2: 57344.0}


class Program(NamedTuple):
    """`run(*arguments)` on hpu gives what `expected(*arguments)` gives on the CPU: bit for bit, or `near` it."""

    name: str
    run: Callable[..., Any]
    arguments: tuple[Any, ...]
    expected: Callable[..., Any]
    near: float | None = None


def generator(name: str) -> torch.Generator:
    """Random numbers that depend on the family's name alone."""
    return torch.Generator().manual_seed(sum(name.encode()))
