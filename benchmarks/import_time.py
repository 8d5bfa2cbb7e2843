"""import: how much longer `import torch` takes with the device than without it, in fresh processes taking turns."""

import os
import sys

from benchmarks.children import PROBE_S
from benchmarks.report import Cell, Table
from benchmarks.timing import Spread
from commands import child

_AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
_MEASURE = """
import time
start = time.perf_counter()
import torch
seconds = time.perf_counter() - start
"""
# The autoload as `import torch` would do it, on its own: the difference of two whole imports is mostly noise.
_MEASURE_AUTOLOAD = """
import time
import torch
start = time.perf_counter()
torch._import_device_backends()
seconds = time.perf_counter() - start
"""
_PRINT = """
import resource
print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def _cost(autoload: str, program: str) -> tuple[float, float]:
    """Milliseconds, and the process's largest size in MB."""
    environment = {**os.environ, _AUTOLOAD: autoload}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages have their bytecode
    ended = child.run([sys.executable, "-c", program + _PRINT], seconds=PROBE_S, env=environment, split=True)
    if ended.code:
        raise child.ChildError(f"`import torch`: {ended.how}; it printed:\n{ended.tail}")
    seconds, kib = ended.output.split()
    return float(seconds) * 1e3, float(kib) / 1024


def import_time(rounds: int) -> list[Table]:
    """With and without the autoload."""
    programs = {"without": ("0", _MEASURE), "with": ("1", _MEASURE), "alone": ("0", _MEASURE_AUTOLOAD)}
    for program in programs.values():
        _cost(*program)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
    order = list(programs)
    for _ in range(rounds):
        for name in order:
            found[name].append(_cost(*programs[name]))
        order.append(order.pop(0))
    tables = []
    for unit, which, aim in (("ms", 0, "< 60"), ("MB", 1, "< 15")):
        without, with_it, alone = ([cost[which] for cost in found[name]] for name in programs)
        difference = [a - b for a, b in zip(with_it, without, strict=True)]
        columns = ["without the device", "with it", "difference", "aim"]
        values: list[Cell] = [Spread.of(without), Spread.of(with_it), Spread.of(difference), aim]
        if unit == "ms":
            columns.append("the autoload on its own")
            values.append(Spread.of(alone))
        tables.append(Table(f"`import torch` in a fresh process, {unit}", columns))
        tables[-1].rows.append(values)
    tables[0].notes.append(f"Without the device: {_AUTOLOAD}=0.")
    return tables
