"""recording: the cost of lazy mode for a script: records, flushes, first steps, compilations, recipes from disk.

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
from benchmarks.memory import status
from benchmarks.models import Training
from benchmarks.parts import part
from benchmarks.report import Table
from benchmarks.timing import Spread
from openhpu import events, hpu

_MIB = 2**20


def _probe(kind: str, compile_policy: str = "background", **environment: str) -> dict[str, Any]:
    lazy = {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": compile_policy, **environment}
    return probe(f"recording:{kind}", **lazy)


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


def size() -> dict[str, Any]:
    """Microseconds per operator: recorded, flushed (host), done; by number of operators in the graph."""
    x, y = _square("hpu")
    _chain(x, y, 10)
    rows = []
    for operators in (10, 100, 1_000, 10_000, 100_000):
        repeats = max(3, min(300, 100_000 // operators))
        times: list[list[float]] = [[], [], []]
        for _ in range(repeats):
            hpu.synchronize()
            kept: list[torch.Tensor] = []
            times[0].append(_time(lambda: kept.append(_chain(x, y, operators))))  # noqa: B023
            times[1].append(_time(htcore.mark_step))
            times[2].append(_time(hpu.synchronize))
        record, flush, rest = (statistics.median(t) / operators * _US for t in times)
        rows.append([operators, record, flush, record + flush + rest])
    return {"rows": rows}


def leak() -> dict[str, Any]:
    """Bytes resident and on the device after 200,000 and after 1,200,000 recorded operators."""
    x, y = _square("hpu")

    def run(operators: int) -> list[int]:
        for _ in range(operators // 1000):
            _chain(x, y, 1000)
            htcore.mark_step()
        hpu.synchronize()
        gc.collect()
        return [status("VmRSS"), hpu.memory_allocated()]

    before, after = run(200_000), run(1_000_000)
    return {"resident": after[0] - before[0], "device": after[1] - before[1], "recorded": 1_000_000}


def _batched(training: Training, batch: int) -> None:
    """Give the training's step another batch size."""
    inputs, target = (t.cpu() for t in (training.inputs, training.target))
    device = next(training.model.parameters()).device
    repeats = -(-batch // len(inputs))
    for name, tensor in (("inputs", inputs), ("target", target)):
        setattr(training, name, torch.cat([tensor] * repeats)[:batch].to(device))


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
            _batched(training, batch)
            times[device] = [cold * 1e3, steady * 1e3, _time(step) * 1e3]
        rows.append([workload.title, *times["hpu"], *times["cpu"]])
    return {"rows": rows}


def _counted(steps: int, step: Callable[[int], None]) -> dict[str, Any]:
    in_recipes = 0
    for number in range(steps):
        before = openhpu.counters()
        step(number)
        hpu.synchronize()
        after = openhpu.counters()
        recorded = after["ops_recorded"] - before["ops_recorded"]
        in_recipes += recorded > 0 and after["ops_in_recipes"] - before["ops_in_recipes"] == recorded
        openhpu.wait_for_recipes()
    return {"steps": steps, "in recipes": in_recipes, "compilations": openhpu.counters()["recipes_compiled"]}


def schedule() -> dict[str, Any]:
    """Compilations, and steps that ran wholly in recipes, of 100 with another learning rate each."""
    training = models.MLP.training("hpu")
    scheduler = torch.optim.lr_scheduler.ExponentialLR(training.optimizer, 0.99)

    def step(_: int) -> None:
        training.step()
        scheduler.step()

    return _counted(100, step)


def batches() -> dict[str, Any]:
    """The same with ten batch sizes in random order."""
    training = models.MLP.training("hpu")
    order = torch.randint(10, (100,), generator=torch.Generator().manual_seed(5)).tolist()

    def step(number: int) -> None:
        _batched(training, 16 + 3 * order[number])
        training.step()

    return _counted(100, step)


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
