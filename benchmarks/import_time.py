"""import: how much longer `import torch` takes with the device than without it, in fresh processes taking turns."""

from __future__ import annotations

import os
import sys

from benchmarks.children import PROBE_S
from benchmarks.report import Table
from benchmarks.timing import Spread
from commands import child

_AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
_MEASURE = """
import time
start = time.perf_counter()
import torch
print(time.perf_counter() - start)
"""
# The autoload as `import torch` would do it, on its own: the difference of two whole imports is mostly noise.
_MEASURE_AUTOLOAD = """
import time
import torch
start = time.perf_counter()
torch._import_device_backends()
print(time.perf_counter() - start)
"""


def _milliseconds(autoload: str, program: str = _MEASURE) -> float:
    environment = {**os.environ, _AUTOLOAD: autoload}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages have their bytecode
    ended = child.run([sys.executable, "-c", program], seconds=PROBE_S, env=environment, split=True)
    if ended.code:
        raise child.ChildError(f"`import torch`: {ended.how}; it printed:\n{ended.tail}")
    return float(ended.output) * 1e3


def import_time(rounds: int) -> list[Table]:
    """With and without the autoload."""
    programs = {"without": ("0", _MEASURE), "with": ("1", _MEASURE), "alone": ("0", _MEASURE_AUTOLOAD)}
    for program in programs.values():
        _milliseconds(*program)
    found: dict[str, list[float]] = {name: [] for name in programs}
    order = list(programs)
    for _ in range(rounds):
        for name in order:
            found[name].append(_milliseconds(*programs[name]))
        order.append(order.pop(0))
    difference = [a - b for a, b in zip(found["with"], found["without"], strict=True)]
    table = Table(
        "`import torch` in a fresh process, ms",
        ["without the device", "with it", "difference", "the autoload on its own", "aim"],
    )
    table.rows.append(
        [Spread.of(values) for values in (found["without"], found["with"], difference, found["alone"])] + ["< 100"]
    )
    table.notes.append(f"Without the device: {_AUTOLOAD}=0.")
    return [table]
