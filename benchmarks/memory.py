"""memory: peak memory of a training step beside the CPU device's, and the growth over 10,000 steps.

Each measurement runs in a process of its own (benchmarks/memory_probe.py).
"""

from __future__ import annotations

from typing import Any

from benchmarks.children import probe
from benchmarks.memory_probe import WORKLOADS
from benchmarks.parts import part
from benchmarks.report import Table
from benchmarks.timing import ROUNDS_TO_QUOTE, Spread

_AIM = "<= 1.05"
_MIB = 2**20


def _peaks(name: str, repeats: int) -> list[list[dict[str, Any]]]:
    """Of a workload, what each of the probes found on hpu, and on the CPU."""
    return [
        [probe("benchmarks.memory_probe", "peak", name, device) for _ in range(repeats)] for device in ("hpu", "cpu")
    ]


def memory(rounds: int) -> list[Table]:
    """Peaks of three models, growth of the smallest."""
    repeats = max(1, rounds // 5)
    peaks = Table(
        "Peak memory of a training step with fused AdamW, MiB",
        ["step", "held between steps", "hpu", "CPU", "hpu / CPU", "aim", "resident hpu", "resident CPU"],
    )
    for name, workload in WORKLOADS.items():
        hpu, cpu = part(workload.title, _peaks, name, repeats)
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
    found = probe("benchmarks.memory_probe", "growth", "MLP", "hpu", str(steps))
    left.rows.append([found["device"], found["blocks"], found["resident"] / 1024, found["faults"], "0, 0, 0, 0"])
    return [peaks, left]
