"""dispatch: operators so small that only the way to the kernel counts. large: operators of 100 microseconds and more.

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

Case = tuple[str, Callable[..., Any], tuple[Any, ...]]
SMALL_AIM, LARGE_AIM = 1.5, 1.02


def _random(*sizes: int) -> Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(0))


def _small() -> list[Case]:
    square = _random(8, 8)
    return [
        ("add 8x8", torch.add, (square, square + 1)),
        ("mm 8x8", torch.mm, (square, square)),
        ("relu 8x8", torch.relu, (square,)),
        ("softmax 8x8", torch.softmax, (square, -1)),
        ("add_ 8x8", torch.Tensor.add_, (square, 0.0)),
        ("linear 8x8", F.linear, (square, square, square[0])),
    ]


def _large() -> list[Case]:
    rows, many = _random(4096, 1024), _random(4 << 20)
    indices = torch.randint(20_000, (8192,), generator=torch.Generator().manual_seed(0))
    return [
        ("mm 512x512", torch.mm, (_random(512, 512), _random(512, 512))),
        ("conv2d 16x64x32x32, 64 of 3x3", F.conv2d, (_random(16, 64, 32, 32), _random(64, 64, 3, 3), None, 1, 1)),
        ("softmax 4096x1024", torch.softmax, (rows, -1)),
        ("layer_norm 4096x1024", F.layer_norm, (rows, (1024,), _random(1024), _random(1024))),
        ("add 4M", torch.add, (many, many)),
        ("gelu 4M", F.gelu, (many,)),
        ("sum 4M", torch.sum, (many,)),
        ("embedding 20000x512, 8192 rows", F.embedding, (indices, _random(20_000, 512))),
    ]


def _measure(title: str, cases: list[Case], rounds: int, calls: int, aim: float) -> Table:
    table = Table(
        title,
        ["operator", "hpu host us", "hpu done us", "CPU us", "host / CPU", "done / CPU", "aim", "faults hpu, CPU"],
    )
    for name, function, args in cases:
        # An operand given twice is one tensor there, too: two copies would be twice the memory to read.
        copies = {id(a): a.to("hpu") for a in args if isinstance(a, Tensor)}
        on_hpu = tuple(copies.get(id(a), a) for a in args)
        check_equal(function(*on_hpu), function(*args), name)
        peers = [Peer("hpu", function, on_hpu, on_hpu=True), Peer("CPU", function, args)]
        found = in_turns(peers, rounds, calls)
        hpu, cpu = found["hpu"], found["CPU"]
        table.rows.append(
            [
                name,
                *hpu.spreads(1e6),
                Spread.of(cpu.done, 1e6),
                hpu.ratio_to(cpu, "host"),
                hpu.ratio_to(cpu),
                f"<= {aim}",
                f"{Spread.of(hpu.faults).median:.3g}, {Spread.of(cpu.faults).median:.3g}",
            ]
        )
    return table


def dispatch(rounds: int) -> list[Table]:
    """Small operators."""
    # A turn begins after a pause, in which the worker sleeps. On a virtual machine the first 1,000 calls then take up
    # to three times as long, since Linux wakes the worker on the core of the thread that submits.
    title = "Small operators, 20,000 calls in a row; faults are per call"
    return [_measure(title, _small(), rounds, 20_000, SMALL_AIM)]


def large(rounds: int) -> list[Table]:
    """Large operators."""
    return [_measure("Large operators, 20 calls in a row; faults are per call", _large(), rounds, 20, LARGE_AIM)]
