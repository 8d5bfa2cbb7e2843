"""memory: peak memory of a training step beside the CPU device's. Each measurement runs in a process of its own."""

import gc
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks import models
from benchmarks.children import probe
from benchmarks.models import Training
from benchmarks.parts import part
from benchmarks.report import Table
from benchmarks.timing import Spread
from openhpu import hpu

WORKLOADS = {"MLP": models.MLP, "GPT": models.GPT_SMALL, "ConvNet": models.CONVNET}
_AIM = "<= 1.05"
_MIB = 2**20


def _peaks(name: str, repeats: int) -> list[list[dict[str, Any]]]:
    """Of a workload, what each of the probes found on hpu, and on the CPU."""
    return [[probe("memory:peak", name, device) for _ in range(repeats)] for device in ("hpu", "cpu")]


def memory(rounds: int) -> list[Table]:
    """Peaks of three models."""
    repeats = max(1, rounds // 5)
    peaks = Table(
        "Peak memory of a training step with fused AdamW, MiB",
        ["step", "held between steps", "hpu", "CPU", "hpu / CPU", "aim", "resident hpu", "resident CPU"],
    )
    for name, workload in WORKLOADS.items():
        found = part(workload.title, _peaks, name, repeats)
        on_hpu, on_cpu = (Spread.of([run["booked"] for run in runs], 1 / _MIB) for runs in found)
        peaks.rows.append(
            [
                workload.title,
                found[1][0]["held"] / _MIB,
                on_hpu,
                on_cpu,
                on_hpu.median / on_cpu.median,
                _AIM,
                *(Spread.of([run["resident"] for run in runs], 1 / _MIB) for runs in found),
            ]
        )
    peaks.notes = [
        "hpu: MaxInUse of the device, which does not hold the scratch memory of its kernels. CPU: tensors and kernels' "
        "temporaries that PyTorch's profiler saw allocated.",
        "resident: growth of the process's largest resident memory, everything included, from an opened device with "
        "warm kernels to the fifth step. The device's memory is backed by huge pages where the system has them.",
    ]
    return [peaks]


def status(key: str) -> int:
    """A value of /proc/self/status, in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(key)


def _start_resident_peak() -> int:
    """Start a new measurement of VmHWM; what is resident now."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return status("VmRSS")


def _live_bytes(training: Training) -> int:
    """Bytes that the training holds between steps."""
    held = list(chain(training.model.parameters(), training.model.buffers(), [training.inputs, training.target]))
    held += [parameter.grad for parameter in training.model.parameters() if parameter.grad is not None]
    held += [v for state in training.optimizer.state.values() for v in state.values() if isinstance(v, torch.Tensor)]
    return sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in held}.values())


def _cpu_step_peak(training: Training) -> int:
    """The most bytes that CPU tensors took during a step, kernels' temporaries included, as PyTorch's profiler saw."""
    # The profiler does not see frees of what was there before: no gradients then.
    training.optimizer.zero_grad(set_to_none=True)
    before = _live_bytes(training)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        training.step()
    records = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    total = peak = 0
    for record in sorted(records, key=lambda record: record.start_ns()):
        total += record.nbytes()
        peak = max(peak, total)
    return before + peak


def _hpu_step_peak(training: Training) -> int:
    """The device's MaxInUse of a step."""
    hpu.synchronize()
    hpu.reset_peak_memory_stats()
    training.step()
    hpu.synchronize()
    return hpu.max_memory_allocated()


def peak(name: str, device: str) -> dict[str, int]:
    """Peaks of a training step on `device`, after some steps before it."""
    tiny = models.MLP.training(device, fused=True)  # fused on both: the other form holds other temporaries
    for _ in range(3):
        tiny.step().item()
    del tiny
    resident = _start_resident_peak()
    at_first = hpu.memory_allocated()
    with torch.device(device):  # made where it is used: a copy on the host would count
        training = WORKLOADS[name].training(device, fused=True)
    for _ in range(5):
        training.step().item()
    resident = status("VmHWM") - resident
    booked = _cpu_step_peak(training) if device == "cpu" else _hpu_step_peak(training) - at_first
    return {"booked": booked, "resident": resident, "held": _live_bytes(training)}
