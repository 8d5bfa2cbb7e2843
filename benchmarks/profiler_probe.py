"""One process of the benchmark `profiler`: prints what it measured as JSON. Argument: overhead or file."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.models import GPT_SMALL
from openhpu import _C, hpu, wait_for_recipes
from openhpu.observe.profiler import trace_file

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


if __name__ == "__main__":
    print(json.dumps({"overhead": overhead, "file": file}[sys.argv[1]](int(sys.argv[2]))))
