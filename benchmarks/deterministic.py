"""deterministic: the cost of torch.use_deterministic_algorithms in lazy mode; recipes take over at fixed steps.

A suite of small tests meets many graphs a few times each, and must not wait for the compiler. A training waits once.
Each measurement has a process of its own.
"""

from __future__ import annotations

from typing import Any

from benchmarks.children import probe
from benchmarks.parts import part
from benchmarks.report import Table
from benchmarks.timing import ROUNDS_TO_QUOTE, Spread

_GRAPHS, _TIMES = 500, 3
_STEPS = 400
EAGER = {"PT_HPU_LAZY_MODE": "0"}
LAZY = {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "background", "PT_HPU_RECIPE_CACHE_CONFIG": ""}


def _probe(what: str, on: bool, number: int, environment: dict[str, str]) -> dict[str, Any]:
    return probe("benchmarks.deterministic_probe", what, str(int(on)), str(number), **environment)


def _suite(rounds: int) -> Table:
    table = Table(
        f"{_GRAPHS} small distinct graphs, {_TIMES} times each, s",
        ["graphs differ in", "eager", "lazy, deterministic", "lazy / eager"],
    )
    for what, title in (("operators", "operators"), ("sizes", "sizes only")):
        eager, lazy = [], []
        for _ in range(rounds):
            eager.append(_probe(what, True, _GRAPHS, EAGER)["seconds"])
            lazy.append(_probe(what, True, _GRAPHS, LAZY)["seconds"])
        ratio = Spread.of([mine / theirs for mine, theirs in zip(lazy, eager, strict=True)])
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
        runs = [_probe("training", on, steps, LAZY) for _ in range(rounds)]
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
    ratio = Spread.of([mine / theirs for mine, theirs in zip(last[True], last[False], strict=True)])
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
