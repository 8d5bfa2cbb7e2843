"""lightning: a Trainer's step on hpu beside the same Trainer's on the CPU accelerator; how much of it runs in recipes.

Each in processes of their own, in turns (benchmarks/lightning_probe.py). Needs lightning and lightning-habana.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.report import Table
from benchmarks.timing import Spread

_LAZY = {"PT_HPU_LAZY_MODE": "1"}
_MODES: dict[str, tuple[dict[str, str], str]] = {"eager": ({}, "<= 1.05"), "lazy": (_LAZY, "<= 1.0")}


def _probe(what: str, device: str, **variables: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.lightning_probe", what, device]
    folder = Path(__file__).parent.parent
    run = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=os.environ | variables)
    if run.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{run.stderr}")
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def lightning(rounds: int) -> list[Table]:
    """Steps of the GPT in both modes; recipes of digits."""
    steps = Table("A Trainer's step of GPT 4 layers, ms", ["mode", "hpu", "CPU", "hpu / CPU", "aim"])
    if importlib.util.find_spec("lightning") is None:
        steps.notes.append("Left out: lightning is not installed.")
        return [steps]
    for mode, (variables, aim) in _MODES.items():
        hpu: list[float] = []
        cpu: list[float] = []
        for _ in range(max(1, rounds // 5)):
            hpu += _probe("steps", "hpu", **variables)["ms"]
            cpu += _probe("steps", "cpu")["ms"]
        ratio = Spread.of(hpu).median / Spread.of(cpu).median
        steps.rows.append([mode, Spread.of(hpu), Spread.of(cpu), ratio, aim])
    found = _probe("recipes", "hpu", **_LAZY)
    recipes = Table(
        "The second 100 batches of digits in lazy mode, with validation, logging and a checkpoint",
        ["operators in recipes", "aim", "recipes", "aim for them"],
    )
    recipes.rows.append([found["share"], ">= 0.9", found["recipes"], "<= 4"])
    return [steps, recipes]
