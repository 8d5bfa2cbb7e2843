"""profiler: what a profile of the device costs a training step beside one of the host, and what a large trace costs.

Aims: a step with both activities takes at most 1.10 of one with the host's alone, the sum of device events is within
5 % of the worker's clock, and a million events are written in 60 s and 2 GB. Each measurement runs in a process of its
own (benchmarks/profiler_probe.py).
"""

from __future__ import annotations

from typing import Any

from benchmarks.children import probe
from benchmarks.report import Table
from benchmarks.timing import Spread


def _probe(kind: str, rounds: int, lazy: str) -> dict[str, Any]:
    return probe("benchmarks.profiler_probe", kind, str(rounds), PT_HPU_LAZY_MODE=lazy)


def profiler(rounds: int) -> list[Table]:
    """Steps of the GPT in both modes, and a file."""
    steps = Table(
        "A training step of the GPT under torch.profiler, ms",
        ["mode", "no profile", "CPU", "CPU and HPU", "both / CPU", "events / worker's clock"],
    )
    for mode, lazy in (("eager", "0"), ("lazy", "1")):
        found = _probe("overhead", rounds, lazy)
        ms = found["ms"]
        ratio = Spread.of([both / cpu for both, cpu in zip(ms["both"], ms["cpu"], strict=True)])
        row = [Spread.of(ms[name]) for name in ("none", "cpu", "both")]
        steps.rows.append([mode, *row, ratio, Spread.of(found["share of the worker's clock"])])
    steps.notes.append("Aims: both / CPU at most 1.10; events within 5 % of the clock. Begin and end are not timed.")
    found = _probe("file", rounds, "0")
    file = Table("A trace as a file", ["events", "s", "MB", "aim"])
    file.rows.append([found["events"], Spread.of(found["seconds"]), found["bytes"] / 1e6, "60 s, 2,000 MB"])
    return [steps, file]
