"""lightning: a Trainer's step on hpu beside the same Trainer's on the CPU accelerator; how much of it runs in recipes.

Each in processes of their own, in turns. Needs lightning and lightning-habana.
"""

import importlib.util

from benchmarks.children import probe
from benchmarks.parts import part
from benchmarks.report import Table
from benchmarks.timing import Spread

_LAZY = {"PT_HPU_LAZY_MODE": "1"}
_MODES: dict[str, tuple[dict[str, str], str]] = {"eager": ({}, "<= 1.05"), "lazy": (_LAZY, "<= 1.0")}


def _steps(variables: dict[str, str], times: int) -> tuple[list[float], list[float]]:
    """Milliseconds of steps on hpu and on the CPU, in turns."""
    hpu: list[float] = []
    cpu: list[float] = []
    for _ in range(times):
        hpu += probe("lightning_probe:steps", "hpu", **variables)["ms"]
        cpu += probe("lightning_probe:steps", "cpu")["ms"]
    return hpu, cpu


def lightning(rounds: int) -> list[Table]:
    """Steps of the GPT in both modes; recipes of digits."""
    steps = Table("A Trainer's step of GPT 4 layers, ms", ["mode", "hpu", "CPU", "hpu / CPU", "aim"])
    if importlib.util.find_spec("lightning") is None:
        steps.notes.append("Left out: lightning is not installed.")
        return [steps]
    for mode, (variables, aim) in _MODES.items():
        hpu, cpu = part(mode, _steps, variables, max(1, rounds // 5))
        ratio = Spread.of(hpu).median / Spread.of(cpu).median
        steps.rows.append([mode, Spread.of(hpu), Spread.of(cpu), ratio, aim])
    found = probe("lightning_probe:recipes", "hpu", **_LAZY)
    recipes = Table(
        "The second 100 batches of digits in lazy mode, with validation, logging and a checkpoint",
        ["operators in recipes", "aim", "recipes", "aim for them"],
    )
    recipes.rows.append([found["share"], ">= 0.9", found["recipes"], "<= 4"])
    return [steps, recipes]
