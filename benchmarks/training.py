"""steps: training steps of three models. linear100: of 100 small linear layers, where the host's time is all there is.

The CPU device trains beside with AdamW as PyTorch sets it up by default there, and with its fused form, which is
the default on hpu.
"""

from __future__ import annotations

from typing import Any

import openhpu
from benchmarks import models
from benchmarks.models import Workload
from benchmarks.report import Table
from benchmarks.timing import Peer, Spread, check_equal, in_turns

COLUMNS = [
    "step",
    "hpu host ms",
    "hpu done ms",
    "CPU ms",
    "CPU fused ms",
    "done / CPU",
    "done / CPU fused",
    "aim",
    "operators",
    "fallbacks",
    "faults hpu, CPU",
]


def _measure(workload: Workload, rounds: int, calls: int, aim: str, **optimizer: Any) -> list[Any]:
    trainings = {
        "hpu": workload.training("hpu", **optimizer),
        "CPU": workload.training("cpu", **optimizer),
        "CPU fused": workload.training("cpu", fused=True, **optimizer),
    }
    losses = {name: [training.step() for _ in range(3)] for name, training in trainings.items()}
    for name in ("CPU", "CPU fused"):
        check_equal(losses["hpu"], losses[name], f"{workload.title}, losses of hpu and {name}")

    openhpu.reset_counters()
    trainings["hpu"].step()
    counters = openhpu.counters()

    found = in_turns([Peer(n, t.step, on_hpu=n == "hpu") for n, t in trainings.items()], rounds, calls)
    hpu, cpu, fused = found.values()
    faults = (Spread.of(samples.faults).median for samples in (hpu, cpu))
    return [
        workload.title,
        _ms(hpu.host),
        _ms(hpu.done),
        _ms(cpu.done),
        _ms(fused.done),
        hpu.ratio_to(cpu),
        hpu.ratio_to(fused),
        aim,
        sum(counters[name] for name in ("ops_submitted", "ops_waited", "ops_fallback")),
        counters["ops_fallback"],
        ", ".join(f"{value:.3g}" for value in faults),
    ]


def _ms(seconds: list[float]) -> Spread:
    return Spread.of([value * 1e3 for value in seconds])


def steps(rounds: int) -> list[Table]:
    """MLP, GPT and ConvNet with AdamW."""
    table = Table("Training steps with AdamW; operators, fallbacks and page faults are per step", COLUMNS)
    for workload, calls in ((models.MLP, 50), (models.GPT_SMALL, 4), (models.CONVNET, 3)):
        table.rows.append(_measure(workload, rounds, calls, "none"))
    return [table]


def linear100(rounds: int) -> list[Table]:
    """100 linear layers, forward, backward and SGD."""
    table = Table("Training step of 100 small Linear layers with SGD", COLUMNS)
    table.rows.append(_measure(models.LINEAR100, rounds, 10, "<= 1.0", kind="sgd"))
    return [table]
