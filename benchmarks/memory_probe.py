"""One memory measurement in a process of its own: `python -m benchmarks.memory_probe KIND MODEL DEVICE [STEPS]`.

KIND `peak`: a training step's peak, by the allocator's own books and by the process's resident memory.
KIND `growth`: what many steps leave behind. Prints a JSON object.
"""

from __future__ import annotations

import gc
import json
import sys
from itertools import chain
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks import models
from benchmarks.models import Training, Workload
from benchmarks.timing import page_faults
from openhpu import hpu

WORKLOADS = {"MLP": models.MLP, "GPT": models.GPT_SMALL, "ConvNet": models.CONVNET}


def _status(key: str) -> int:
    """A value of /proc/self/status, in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(key)


def _start_resident_peak() -> int:
    """Start a new measurement of VmHWM; what is resident now."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return _status("VmRSS")


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


def peak(workload: Workload, device: str) -> dict[str, int]:
    """Peaks of a training step on `device`, after some steps before it."""
    tiny = models.MLP.training(device, fused=True)  # fused on both: the other form holds other temporaries
    for _ in range(3):
        tiny.step().item()
    del tiny
    resident = _start_resident_peak()
    at_first = hpu.memory_allocated()
    with torch.device(device):  # made where it is used: a copy on the host would count
        training = workload.training(device, fused=True)
    for _ in range(5):
        training.step().item()
    resident = _status("VmHWM") - resident
    booked = _cpu_step_peak(training) if device == "cpu" else _hpu_step_peak(training) - at_first
    return {"booked": booked, "resident": resident, "held": _live_bytes(training)}


def growth(workload: Workload, device: str, steps: int) -> dict[str, float]:
    """Differences between the state after a tenth of the steps and after all."""
    training = workload.training(device)

    def run(number: int) -> dict[str, float]:
        for i in range(number):
            loss = training.step()
            if i % 100 == 99:
                loss.item()
        loss.item()
        gc.collect()
        stats = hpu.memory_stats()
        return {
            "device": stats["InUse"],
            "blocks": stats["ActiveAllocs"],
            "resident": _status("VmRSS"),
            "faults": page_faults(),
        }

    first = run(steps // 10)
    last = run(steps - steps // 10)
    found: dict[str, float] = {name: last[name] - first[name] for name in first}
    found["faults"] /= steps - steps // 10
    return found


def main(argv: list[str]) -> None:
    """Measure and print."""
    kind, name, device = argv[:3]
    found = peak(WORKLOADS[name], device) if kind == "peak" else growth(WORKLOADS[name], device, int(argv[3]))
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
