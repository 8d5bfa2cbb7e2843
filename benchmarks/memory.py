"""memory: peak memory of a training step beside the CPU device's, and what 10,000 steps leave behind.

Each measurement runs in a process of its own (benchmarks/memory_probe.py).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.memory_probe import WORKLOADS
from benchmarks.report import Table
from benchmarks.timing import ROUNDS_TO_QUOTE, Spread

_AIM = "<= 1.05"
_MIB = 2**20


def _probe(*args: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.memory_probe", *args]
    run = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent.parent)
    if run.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{run.stderr}")
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def memory(rounds: int) -> list[Table]:
    """Peaks of three models, growth of the smallest."""
    repeats = max(1, rounds // 5)
    peaks = Table(
        "Peak memory of a training step with fused AdamW, MiB",
        ["step", "held between steps", "hpu", "CPU", "hpu / CPU", "aim", "resident hpu", "resident CPU"],
    )
    for name, workload in WORKLOADS.items():
        hpu, cpu = ([_probe("peak", name, device) for _ in range(repeats)] for device in ("hpu", "cpu"))
        booked_hpu, booked_cpu = (Spread.of([run["booked"] / _MIB for run in runs]) for runs in (hpu, cpu))
        peaks.rows.append(
            [
                workload.title,
                cpu[0]["held"] / _MIB,
                booked_hpu,
                booked_cpu,
                booked_hpu.median / booked_cpu.median,
                _AIM,
                *(Spread.of([run["resident"] / _MIB for run in runs]) for runs in (hpu, cpu)),
            ]
        )
    peaks.notes = [
        "hpu: MaxInUse of the device, which does not hold the scratch memory of its kernels. CPU: tensors and kernels' "
        "temporaries that PyTorch's profiler saw allocated.",
        "resident: growth of the process's largest resident memory, everything included, from an opened device with "
        "warm kernels to the fifth step. The device's memory is backed by huge pages where the system has them.",
    ]
    steps = 10_000 if rounds >= ROUNDS_TO_QUOTE else 1_000
    left = Table(
        f"What {steps:,} steps of the MLP on hpu leave behind (from a tenth of them to all)",
        ["device bytes", "device blocks", "resident KiB", "page faults a step", "aim"],
    )
    found = _probe("growth", "MLP", "hpu", str(steps))
    left.rows.append([found["device"], found["blocks"], found["resident"] / 1024, found["faults"], "0, 0, 0, 0"])
    return [peaks, left]
