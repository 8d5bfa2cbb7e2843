"""recording: the cost of lazy mode for a script: records, flushes, first steps, recipes from disk.

Each measurement runs in a process of its own.
"""

import gc
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch

import habana_frameworks.torch.core as htcore
import openhpu
from benchmarks import models
from benchmarks.children import probe
from benchmarks.models import Training
from benchmarks.parts import part
from benchmarks.report import Table
from benchmarks.timing import Spread
from openhpu import events, hpu


def _probe(kind: str, **environment: str) -> dict[str, Any]:
    return probe(f"recording:{kind}", PT_HPU_LAZY_MODE="1", OPENHPU_COMPILE="background", **environment)


def _costs() -> Table:
    found = _probe("record")
    table = Table("Host time in lazy mode, us an operator (8 x 8, 200 in a graph)", ["what", "us", "aim"])
    table.rows = [
        ["record x + y from Python", Spread.of(found["record"]), "<= 1.2"],
        [f"flush, {found['in recipes']:.0%} in recipes", Spread.of(found["flush"]), "<= 0.4"],
        ["x + y on the CPU device", Spread.of(found["CPU"]), ""],
    ]
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
    """Costs, first steps, warm starts."""
    return [part("costs", _costs), part("first steps", _first_steps, rounds), part("warm start", _warm_start, rounds)]


_US = 1e6


def _time(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _chain(x: torch.Tensor, y: torch.Tensor, operators: int) -> torch.Tensor:
    for _ in range(operators):
        x = x + y
    return x


def _square(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(8, 8, device=device), torch.ones(8, 8, device=device)


def record() -> dict[str, Any]:
    """Microseconds per `x + y` and per operator of a flush, by round."""
    operators = 200
    x, y = _square("hpu")
    cpu = _square("cpu")
    found: dict[str, list[float]] = {"record": [], "flush": [], "CPU": []}
    for warm in range(53):
        gc.collect()
        hpu.synchronize()
        if warm == 3:
            openhpu.wait_for_recipes()
            openhpu.reset_counters()
        # Each is timed at its second run: as in a loop, rather than after the caches have gone to something else.
        for _ in ("first", "timed"):
            kept: list[torch.Tensor] = []
            recorded = _time(lambda: kept.append(_chain(x, y, operators))) / operators * _US  # noqa: B023
            flushed = _time(htcore.mark_step) / operators * _US
            hpu.synchronize()
        for _ in ("first", "timed"):
            on_cpu = _time(lambda: _chain(*cpu, operators)) / operators * _US
        found["record"].append(recorded)
        found["flush"].append(flushed)
        found["CPU"].append(on_cpu)
    counters = openhpu.counters()
    share = counters["ops_in_recipes"] / max(counters["ops_recorded"], 1)
    return {name: values[3:] for name, values in found.items()} | {"in recipes": share}


def first() -> dict[str, Any]:
    """Milliseconds of first steps: of the process, and of a size not seen before; on hpu and on the CPU."""
    rows = []
    for workload, batch in ((models.MLP, 24), (models.GPT_SMALL, 6), (models.CONVNET, 24)):
        times: dict[str, list[float]] = {}
        for device in ("cpu", "hpu"):
            training = workload.training(device)

            def step(training: Training = training) -> None:
                training.step().item()

            cold = _time(step)
            for _ in range(4):
                step()
            openhpu.wait_for_recipes()
            steady = statistics.median(_time(step) for _ in range(5))
            inputs, target = (whole.cpu()[:batch].to(device) for whole in (training.inputs, training.target))
            training.inputs, training.target = inputs, target
            times[device] = [cold * 1e3, steady * 1e3, _time(step) * 1e3]
        rows.append([workload.title, *times["hpu"], *times["cpu"]])
    return {"rows": rows}


def warm() -> dict[str, Any]:
    """Milliseconds from the request for a recipe to the recipe, where it is on disk; MLP, then GPT."""
    times: list[float] = []
    for kind in ("graph_compilation", "recipe_loaded"):
        events.subscribe(kind, lambda event: times.append(event.params["duration"] / 1e3))
    for workload in (models.MLP, models.GPT_SMALL):
        training = workload.training("hpu")
        for _ in range(6):
            training.step()
        openhpu.wait_for_recipes()
    return {"times": times}
