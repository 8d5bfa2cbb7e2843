"""insight: what collecting for `openhpu run` costs a training step, beside the same step with nobody listening."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.models import GPT_SMALL, MLP
from benchmarks.report import Table
from benchmarks.timing import Peer, Spread, in_turns
from openhpu.insight.collector import Collector


def insight_cost(rounds: int) -> list[Table]:
    """Steps of the MLP and the GPT."""
    table = Table(
        "Cost of collecting, ms a training step until done, 10 steps in a row",
        ["model", "nobody listens", "collecting", "collecting / nobody"],
    )
    for workload in (MLP, GPT_SMALL):
        step = workload.training("hpu").step
        with tempfile.TemporaryDirectory() as folder:
            collector = Collector(Path(folder))
            peers = [
                Peer("none", step, on_hpu=True),
                Peer("collecting", step, on_hpu=True, before=collector.listen, after=collector.ignore),
            ]
            found = in_turns(peers, rounds, 10)
        ms = [Spread.of([value * 1e3 for value in samples.done]) for samples in found.values()]
        table.rows.append([workload.title, *ms, found["collecting"].ratio_to(found["none"])])
    return [table]
