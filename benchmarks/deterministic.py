"""deterministic: the cost of torch.use_deterministic_algorithms in lazy mode; recipes take over at fixed steps.

A suite of small tests meets many graphs a few times each, and must not wait for the compiler. A training waits once.
Each measurement has a process of its own.
"""

import time
from typing import Any

import torch

import openhpu
from benchmarks import models
from benchmarks.children import probe
from benchmarks.parts import part
from benchmarks.report import Table
from benchmarks.timing import ROUNDS_TO_QUOTE, Spread
from openhpu import hpu

_GRAPHS, _TIMES = 500, 3
_STEPS = 400
EAGER = {"PT_HPU_LAZY_MODE": "0"}
LAZY = {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "background", "PT_HPU_RECIPE_CACHE_CONFIG": ""}


def _suite(rounds: int) -> Table:
    table = Table(
        f"{_GRAPHS} small distinct graphs, {_TIMES} times each, s",
        ["graphs differ in", "eager", "lazy, deterministic", "lazy / eager"],
    )
    for what, title in (("operators", "operators"), ("sizes", "sizes only")):
        eager: list[float] = []
        lazy: list[float] = []
        for _ in range(rounds):
            for mode, times in ((EAGER, eager), (LAZY, lazy)):
                times.append(probe("deterministic:suite", what, _GRAPHS, **mode)["seconds"])
        ratio = Spread.of_ratios(lazy, eager)
        table.rows.append([title, Spread.of(eager), Spread.of(lazy), ratio])
    table.notes.append("Aim: <= 2 times eager mode's time.")
    return table


def _training(rounds: int, steps: int) -> Table:
    table = Table(
        f"GPT training, {steps} steps, lazy mode",
        ["deterministic", "longest step, s", "ms a step, last quarter", "operators in recipes, %", "recipe from step"],
    )
    last: dict[bool, list[float]] = {}
    for on in (False, True):
        runs = [probe("deterministic:training", on, steps, **LAZY) for _ in range(rounds)]
        last[on] = [run["late_ms"] for run in runs]
        table.rows.append(
            [
                "yes" if on else "no",
                Spread.of([run["longest"] for run in runs]),
                Spread.of(last[on]),
                Spread.of([100 * run["in_recipes"] for run in runs]),
                Spread.of([run["first_recipe"] for run in runs]),
            ]
        )
    ratio = Spread.of_ratios(last[True], last[False])
    table.notes.append(
        f"With the setting, once its wait is over, {ratio.median:.3f} times the time without. Aim: <= 1.1."
    )
    table.notes.append("Aim: >= 90 % of the operators in recipes with the setting.")
    return table


def deterministic(rounds: int) -> list[Table]:
    """A suite of small graphs, and a training."""
    few = max(1, rounds // 5)
    steps = _STEPS if rounds >= ROUNDS_TO_QUOTE else _STEPS // 4
    return [part("small graphs", _suite, few), part("training", _training, few, steps)]


_UNARY = ("sin", "cos", "tanh", "abs", "neg", "relu", "sigmoid", "square", "exp", "floor", "ceil", "sign")


def _small_graph(number: int, x: torch.Tensor) -> torch.Tensor:
    """A graph of six operators, another one for each number."""
    for _ in range(3):
        number, chosen = divmod(number, len(_UNARY))
        x = getattr(torch, _UNARY[chosen])(x) * 0.5
    return x


def suite(what: str, graphs: int) -> dict[str, Any]:
    """Seconds for the graphs, three times each, with a look at each result."""
    torch.use_deterministic_algorithms(True)
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


def training(on: bool, steps: int) -> dict[str, Any]:
    """Steps of the GPT, with a look at each loss."""
    torch.use_deterministic_algorithms(on)
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
