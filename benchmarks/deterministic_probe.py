"""A process of the benchmark `deterministic`: `python -m benchmarks.deterministic_probe WHAT ON NUMBER`."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch

import openhpu
from benchmarks import models
from openhpu import hpu

_UNARY = ("sin", "cos", "tanh", "abs", "neg", "relu", "sigmoid", "square", "exp", "floor", "ceil", "sign")


def _small_graph(number: int, x: torch.Tensor) -> torch.Tensor:
    """A graph of six operators, another one for each number."""
    for _ in range(3):
        number, chosen = divmod(number, len(_UNARY))
        x = getattr(torch, _UNARY[chosen])(x) * 0.5
    return x


def suite(what: str, graphs: int) -> dict[str, Any]:
    """Seconds for the graphs, three times each, with a look at each result."""
    x = torch.linspace(-1, 1, 64).to("hpu")
    for operator in _UNARY:  # nobody pays for an operator's first use
        getattr(torch, operator)(x)
    hpu.synchronize()
    start = time.perf_counter()
    for number in range(graphs):
        for _ in range(3):
            y = _small_graph(number, x) if what == "operators" else _small_graph(77, torch.ones(number + 2).to("hpu"))
            y.sum().item()
    return {"seconds": time.perf_counter() - start}


def training(steps: int) -> dict[str, Any]:
    """Steps of the GPT, with a look at each loss."""
    gpt = models.GPT_SMALL.training("hpu")
    before = openhpu.counters()
    times, first = [], 0
    for step in range(1, steps + 1):
        start = time.perf_counter()
        gpt.step().item()
        times.append(time.perf_counter() - start)
        if not first and openhpu.counters()["recipe_hits"]:
            first = step
    moved = {name: value - before[name] for name, value in openhpu.counters().items()}
    late = sorted(times[-steps // 4 :])
    return {
        "longest": max(times),
        "late_ms": late[len(late) // 2] * 1e3,
        "in_recipes": moved["ops_in_recipes"] / moved["ops_recorded"],
        "first_recipe": first,
    }


def main() -> None:
    what, on, number = sys.argv[1], sys.argv[2] == "1", int(sys.argv[3])
    torch.use_deterministic_algorithms(on)
    print(json.dumps(training(number) if what == "training" else suite(what, number)))


if __name__ == "__main__":
    main()
