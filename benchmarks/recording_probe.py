"""One measurement of lazy mode in a process of its own: `python -m benchmarks.recording_probe KIND`. Prints JSON.

`record`: an operator recorded from Python, and a flush of a graph that is known. `size`: cost per operator in graphs of
10 to 100,000. `leak`: what a million recorded operators leave behind. `first`: the first step of a new graph.
`schedule`: a learning rate that changes each step. `batches`: ten batch sizes. `warm`: recipes from disk.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

import habana_frameworks.torch.core as htcore
import openhpu
from benchmarks import models
from benchmarks.memory_probe import _status
from benchmarks.models import Training
from openhpu import events, hpu

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
        return [_status("VmRSS"), hpu.memory_allocated()]

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


if __name__ == "__main__":
    if not os.environ.get("PT_HPU_LAZY_MODE"):
        raise SystemExit("set PT_HPU_LAZY_MODE=1")
    print(json.dumps(globals()[sys.argv[1]]()))
