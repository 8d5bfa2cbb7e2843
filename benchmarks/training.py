"""steps: training steps of three models. linear100: of 100 small linear layers, where the host's time is all there is.

The CPU device trains beside as PyTorch sets the optimizer up there by default, and with the optimizer's fused form,
which is the default on hpu; each in this process and in a process of its own (`alone.py`).
"""

from contextlib import ExitStack
from typing import Any

import openhpu
from benchmarks import models
from benchmarks.alone import Child
from benchmarks.models import Workload
from benchmarks.parts import part
from benchmarks.report import Table
from benchmarks.timing import ROUNDS_TO_QUOTE, Peer, Spread, check_equal, in_turns

PEERS: dict[str, tuple[str, dict[str, Any]]] = {
    "hpu": ("hpu", {}),
    "CPU": ("cpu", {}),
    "CPU, fused": ("cpu", {"fused": True}),
}


def _measure(workload: Workload, rounds: int, calls: int, aim: str = "", **optimizer: Any) -> Table:
    trainings = {name: workload.training(device, **optimizer, **more) for name, (device, more) in PEERS.items()}
    losses = {name: [training.step() for _ in range(3)] for name, training in trainings.items()}
    for name in trainings:
        check_equal(losses["hpu"], losses[name], f"{workload.title}, losses of hpu and {name}")

    openhpu.reset_counters()
    trainings["hpu"].step()
    counters = openhpu.counters()
    operators = sum(counters[name] for name in ("ops_submitted", "ops_waited", "ops_fallback"))

    with ExitStack() as stack:
        peers = [Peer(n, t.step, on_hpu=n == "hpu") for n, t in trainings.items()]
        for name, (device, more) in PEERS.items():
            if device == "cpu" and rounds >= ROUNDS_TO_QUOTE:
                child = stack.enter_context(Child(workload, **optimizer, **more))
                peers.append(child.peer(f"{name}, alone"))
        found = in_turns(peers, rounds, calls)

    table = Table(
        f"{workload.title}: {operators} operators a step on hpu, {counters['ops_waited']} of them waited for, "
        f"{counters['ops_fallback']} fallbacks",
        ["peer", "host ms", "done ms", "hpu / this", "faults a step"],
    )
    for name, samples in found.items():
        ratio = found["hpu"].ratio_to(samples)
        table.rows.append([name, *samples.spreads(1e3), ratio, Spread.of(samples.faults).median])
    if rounds >= ROUNDS_TO_QUOTE:
        table.notes.append("alone: in a process of its own, in which no device is opened.")
    if aim:
        table.notes.append(f"Aim: hpu / CPU {aim}.")
    return table


def steps(rounds: int) -> list[Table]:
    """MLP, GPT and ConvNet with AdamW."""
    cases = ((models.MLP, 50), (models.GPT_SMALL, 4), (models.CONVNET, 3))
    return [part(workload.title, _measure, workload, rounds, calls) for workload, calls in cases]


def linear100(rounds: int) -> list[Table]:
    """100 linear layers, forward, backward and SGD."""
    return [_measure(models.LINEAR100, rounds, 10, "<= 1.0", kind="sgd")]
