"""Steps of the MLP for callgrind: `python -m benchmarks.instructions_probe DEVICE STEPS`, started under Valgrind.

Counting is on for STEPS steps, once lazy mode has its recipes.
"""

from __future__ import annotations

import os
import subprocess
import sys

import openhpu
from benchmarks import models
from openhpu import hpu

_SETTLING = 60
_RECIPES_S, _CONTROL_S = 240.0, 60.0


def _count(state: str) -> None:
    command = ["callgrind_control", "-i", state, str(os.getpid())]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=_CONTROL_S)


def main(device: str, steps: str) -> None:
    training = models.MLP.training(device, **({"fused": True} if device == "cpu" else {}))
    for _ in range(2):
        for _ in range(_SETTLING):
            training.step().item()
        if device == "hpu":
            hpu.synchronize()
            openhpu.wait_for_recipes(_RECIPES_S)
    _count("on")
    for _ in range(int(steps)):
        training.step().item()
    _count("off")


if __name__ == "__main__":
    main(*sys.argv[1:])
