"""profiler: what a profile of the device costs a training step beside one of the host, and what a large trace costs.

Aims: a step with both activities takes at most 1.10 of one with the host's alone, the sum of device events is within
5 % of the worker's clock, and a million events are written in 60 s and 2 GB. Each measurement runs in a process of its
own.
"""

import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.children import probe
from benchmarks.models import GPT_SMALL
from benchmarks.report import Table
from benchmarks.timing import Spread
from openhpu import _C, hpu, wait_for_recipes
from openhpu.observe.profiler import trace_file


def profiler(rounds: int) -> list[Table]:
    """Steps of the GPT in both modes, and a file."""
    steps = Table(
        "A training step of the GPT under torch.profiler, ms",
        ["mode", "no profile", "CPU", "CPU and HPU", "both / CPU", "events / worker's clock"],
    )
    for mode, lazy in (("eager", "0"), ("lazy", "1")):
        found = probe("profiler:overhead", rounds, PT_HPU_LAZY_MODE=lazy)
        ms = found["ms"]
        ratio = Spread.of_ratios(ms["both"], ms["cpu"])
        row = [Spread.of(ms[name]) for name in ("none", "cpu", "both")]
        steps.rows.append([mode, *row, ratio, Spread.of(found["share of the worker's clock"])])
    steps.notes.append("Aims: both / CPU at most 1.10; events within 5 % of the clock. Begin and end are not timed.")
    found = probe("profiler:file", rounds, PT_HPU_LAZY_MODE="0")
    written = Table("A trace as a file", ["events", "s", "MB", "aim"])
    written.rows.append([found["events"], Spread.of(found["seconds"]), found["bytes"] / 1e6, "60 s, 2,000 MB"])
    return [steps, written]


_STEPS = 10
_CPU = [ProfilerActivity.CPU]
_BOTH = [ProfilerActivity.CPU, ProfilerActivity.HPU]


def overhead(rounds: int) -> dict[str, Any]:
    """Milliseconds a training step of the GPT under each profile, in turns, without its begin and end; and the sum of
    device events by the worker's own clock."""
    step = GPT_SMALL.training("hpu").step
    for _ in range(5):
        step()
    wait_for_recipes()
    times: dict[str, list[float]] = {"none": [], "cpu": [], "both": []}
    shares = []
    for _ in range(rounds):
        for name, activities in (("none", None), ("cpu", _CPU), ("both", _BOTH)):
            with profile(activities=activities) if activities else nullcontext() as prof:
                hpu.synchronize()
                busy, begin = _C.busy_ns(0), time.perf_counter()
                for _ in range(_STEPS):
                    step()
                hpu.synchronize()
                times[name].append((time.perf_counter() - begin) / _STEPS * 1e3)
                busy = _C.busy_ns(0) - busy
            if name == "both" and prof is not None:
                shares.append(_device_ns(prof) / busy)
    return {"ms": times, "share of the worker's clock": shares}


def _device_ns(prof: Any) -> float:
    """Of all commands, without the parts that recipes and graphs have."""
    averages = prof.key_averages()
    return sum(e.self_device_time_total for e in averages if e.device_type == torch.autograd.DeviceType.HPU) * 1e3


def file(rounds: int) -> dict[str, Any]:
    """Seconds and bytes of a trace of a million events: commands, the calls that issue them, and their arrows."""
    commands = 1_000_000 // 4
    x = torch.ones(8, device="hpu")
    found: dict[str, Any] = {"seconds": [], "bytes": 0, "events": 0}
    for _ in range(min(rounds, 3)):
        listener = _C.trace_start()
        for _ in range(commands):
            x.add_(1)
        hpu.synchronize()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            begin = time.perf_counter()
            recorded = trace_file.Recorded.of(_C.trace_stop(listener))
            trace_file.write(path, recorded, "benchmark")
            found["seconds"].append(time.perf_counter() - begin)
            found["bytes"] = path.stat().st_size
            found["events"] = 4 * len(recorded.commands)
    return found
