"""dispatch: operators so small that only the way to the kernel counts.

Each operator is called many times in a row; `host` is the time until the calls have returned, `done` until the last
result is there, both per call. On the CPU device they are the same.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.report import Table
from benchmarks.timing import Peer, Spread, check_equal, in_turns

_AIM = 1.5


def dispatch(rounds: int) -> list[Table]:
    """Small operators."""
    square = torch.randn(8, 8, generator=torch.Generator().manual_seed(0))
    cases: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
        ("add 8x8", torch.add, (square, square + 1)),
        ("mm 8x8", torch.mm, (square, square)),
        ("relu 8x8", torch.relu, (square,)),
        ("softmax 8x8", torch.softmax, (square, -1)),
        ("add_ 8x8", torch.Tensor.add_, (square, 0.0)),
        ("linear 8x8", F.linear, (square, square, square[0])),
    ]
    table = Table(
        "Small operators, 20,000 calls in a row; faults are per call",
        ["operator", "hpu host us", "hpu done us", "CPU us", "host / CPU", "done / CPU", "aim", "faults hpu, CPU"],
    )
    for name, function, args in cases:
        # An operand given twice is one tensor there, too: two copies would be twice the memory to read.
        copies = {id(a): a.to("hpu") for a in args if isinstance(a, Tensor)}
        on_hpu = tuple(copies.get(id(a), a) for a in args)
        check_equal(function(*on_hpu), function(*args), name)
        peers = [Peer("hpu", function, on_hpu, on_hpu=True), Peer("CPU", function, args)]
        # A turn begins after a pause, in which the worker sleeps. On a virtual machine the first 1,000 calls then take
        # up to three times as long, since Linux wakes the worker on the core of the thread that submits.
        found = in_turns(peers, rounds, 20_000)
        hpu, cpu = found["hpu"], found["CPU"]
        table.rows.append(
            [
                name,
                *hpu.spreads(1e6),
                Spread.of(cpu.done, 1e6),
                hpu.ratio_to(cpu, "host"),
                hpu.ratio_to(cpu),
                f"<= {_AIM}",
                f"{Spread.of(hpu.faults).median:.3g}, {Spread.of(cpu.faults).median:.3g}",
            ]
        )
    return [table]
