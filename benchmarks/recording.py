"""recording: the cost of lazy mode for a script: records, flushes, first steps, compilations, recipes from disk.

Each measurement runs in a process of its own (benchmarks/recording_probe.py).
"""

from __future__ import annotations

import tempfile
from typing import Any

from benchmarks.children import probe
from benchmarks.parts import part
from benchmarks.report import Table
from benchmarks.timing import Spread

_MIB = 2**20


def _probe(kind: str, compile_policy: str = "background", **environment: str) -> dict[str, Any]:
    lazy = {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": compile_policy, **environment}
    return probe("benchmarks.recording_probe", kind, **lazy)


def _costs() -> Table:
    found = _probe("record")
    table = Table("Host time in lazy mode, us an operator (8 x 8, 200 in a graph)", ["what", "us", "aim"])
    table.rows = [
        ["record x + y from Python", Spread.of(found["record"]), "<= 1.2"],
        [f"flush, {found['in recipes']:.0%} in recipes", Spread.of(found["flush"]), "<= 0.4"],
        ["x + y on the CPU device", Spread.of(found["CPU"]), ""],
    ]
    return table


def _sizes() -> Table:
    table = Table(
        "Cost by size of the graph, us an operator, node by node", ["operators", "record", "flush", "until done"]
    )
    table.rows = _probe("size", "off")["rows"]
    return table


def _leaks() -> Table:
    found = _probe("leak", "off")
    table = Table(f"What {found['recorded']:,} recorded operators leave behind", ["resident MiB", "device bytes"])
    table.rows = [[found["resident"] / _MIB, found["device"]]]
    return table


def _first_steps(rounds: int) -> Table:
    table = Table(
        "First steps, ms: of the process, and of a batch size that is new; medians of processes",
        ["step", "hpu first", "hpu new size", "CPU first", "CPU new size", "CPU steady", "new size hpu / CPU", "aim"],
    )
    runs = [_probe("first") for _ in range(max(1, rounds // 5))]
    for rows in zip(*(run["rows"] for run in runs), strict=True):
        spreads = [Spread.of([row[column] for row in rows]) for column in range(1, 7)]
        ratio = Spread.of([row[3] / row[6] for row in rows])
        table.rows.append([rows[0][0], spreads[0], spreads[2], spreads[3], spreads[5], spreads[4], ratio, "<= 1.5"])
    return table


def _compilations() -> Table:
    table = Table(
        "100 steps of the MLP, waiting for recipes after each", ["script", "steps in recipes", "compilations", "aim"]
    )
    with tempfile.TemporaryDirectory() as folder:
        for kind, title, aim in (
            ("schedule", "a learning rate that changes each step", ">= 97 steps, 1"),
            ("batches", "ten batch sizes in random order", ">= 90 steps, <= 2"),
        ):
            found = _probe(kind, PT_HPU_RECIPE_CACHE_CONFIG=folder)
            table.rows.append([title, found["in recipes"], found["compilations"], aim])
    return table


def _warm_start(rounds: int) -> Table:
    table = Table("From the request to the recipe, where it is on disk, ms", ["recipe", "ms", "aim"])
    with tempfile.TemporaryDirectory() as folder:
        cold = _probe("warm", PT_HPU_RECIPE_CACHE_CONFIG=folder)["times"]
        runs = [_probe("warm", PT_HPU_RECIPE_CACHE_CONFIG=folder)["times"] for _ in range(max(1, rounds // 3))]
    for number, name in enumerate(("MLP step, first recipe of the process", "GPT step")):
        table.rows.append([name, Spread.of([times[number] for times in runs]), "<= 50"])
    table.notes = [f"Compiled from nothing: {cold[0] / 1e3:.1f} and {cold[1] / 1e3:.1f} s."]
    return table


def recording(rounds: int) -> list[Table]:
    """Costs, sizes, leaks, first steps, compilations, warm starts."""
    return [
        part("costs", _costs),
        part("sizes", _sizes),
        part("leaks", _leaks),
        part("first steps", _first_steps, rounds),
        part("compilations", _compilations),
        part("warm start", _warm_start, rounds),
    ]
