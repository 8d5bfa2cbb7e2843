"""parameters: a fused optimizer over many parameters, whose time shall grow as their number does.

The mode is the process's: with PT_HPU_LAZY_MODE=1 steps are recorded, and run node by node unless they become recipes.
"""

from collections.abc import Callable
from typing import Any

import torch

import habana_frameworks.torch.core as htcore
from benchmarks.report import Table
from benchmarks.timing import Peer, Spread, in_turns
from openhpu import hpu

_NUMBERS = (250, 1000, 4000)


def _step(number: int, device: str) -> Callable[[], Any]:
    parameters = [torch.ones(8, device=device, requires_grad=True) for _ in range(number)]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer = torch.optim.AdamW(parameters, fused=True)

    def step() -> None:
        optimizer.step()
        htcore.mark_step()

    step()
    hpu.synchronize()
    return step


def parameters(rounds: int) -> list[Table]:
    """Steps over parameters of eight elements each."""
    table = Table(
        "A step of fused AdamW, us a parameter until done", ["parameters of 8 elements", "hpu", "CPU", "hpu / CPU"]
    )
    for number in _NUMBERS:
        peers = [Peer(device, _step(number, device), on_hpu=device == "hpu") for device in ("hpu", "cpu")]
        found = in_turns(peers, rounds, 5)
        us = [Spread.of(samples.done, 1e6 / number) for samples in found.values()]
        table.rows.append([number, *us, found["hpu"].ratio_to(found["cpu"])])
    return [table]
