"""The one place where time is measured.

Peers are measured in turns, a batch of calls each per round, because machines change their speed from second to second:
what is compared lies milliseconds apart. All are in one process, but for those of
`training_process.py`. Reported are medians over the rounds, with the fastest and slowest; a ratio is the median of the
rounds' own ratios. Page faults are counted beside each time. The CPU device gets them out of its way first
(`calm_malloc`), since otherwise its large outputs would be timed together with the kernel's clearing of fresh pages,
which the device's pool does not need.
"""

import ctypes
import os
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import torch

import openhpu
from openhpu import hpu

# A team of OpenMP threads polls for some milliseconds after a kernel; the next peer shall not meet it.
_PAUSE = 0.01
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST_MMAP_THRESHOLD = 32 << 20

# Seconds until the calls returned, seconds until they were done, page faults.
Turn = tuple[float, float, int]
# Fewer rounds show that a benchmark runs and leave out what takes long.
ROUNDS_TO_QUOTE = 10
CALM = "BENCHMARKS_CALM"  # a variable: peers in processes of their own do the same


def calm_malloc() -> bool:
    """Let glibc keep freed memory up to 32 MiB a block instead of returning it; whether that succeeded."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    kept = mallopt(_M_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
    calm = bool(kept and mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))
    if calm:
        os.environ[CALM] = "1"
    return calm


def page_faults() -> int:
    """Minor page faults of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


class OnDevice:
    """What may run on hpu."""

    on_hpu: bool

    def wait(self) -> None:
        """Wait until everything that was issued is done."""
        if self.on_hpu:
            hpu.synchronize()


class Steps(OnDevice):
    """What makes steps."""

    step: Callable[[], Any]

    def counters(self, steps: int) -> dict[str, int]:
        """The device's counters over `steps` steps."""
        self.wait()
        openhpu.reset_counters()
        for _ in range(steps):
            self.step()
        self.wait()
        return openhpu.counters()


@dataclass(frozen=True)
class Peer(OnDevice):
    """One of those that are compared: a call, on which device it runs, and what comes before its turns.

    Or, with `turn`, someone who measures a number of calls elsewhere.
    """

    name: str
    call: Callable[..., Any] | None = None
    args: tuple[Any, ...] = ()
    on_hpu: bool = False
    before: Callable[[], Any] | None = None  # called ahead of each turn, not timed

    turn: Callable[[int], Turn] | None = None

    def take_turn(self, calls: int) -> Turn:
        """Measure `calls` calls in a row."""
        if self.turn:
            return self.turn(calls)
        assert self.call is not None
        if self.before:
            self.before()
        call, args, clock = self.call, self.args, time.perf_counter
        self.wait()
        faults = page_faults()
        start = clock()
        for _ in repeat(None, calls):
            call(*args)
        returned = clock()
        self.wait()
        done = clock()
        return returned - start, done - start, page_faults() - faults


@dataclass(frozen=True)
class Spread:
    """Median, fastest and slowest of several measurements."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float], unit: float = 1.0) -> "Spread":
        """The spread of `values`, times `unit`."""
        return cls(statistics.median(values) * unit, min(values) * unit, max(values) * unit)


@dataclass
class Samples:
    """What was measured of one peer: per round, seconds per call and page faults per call."""

    host: list[float] = field(default_factory=list)  # until the calls returned
    done: list[float] = field(default_factory=list)  # until their work was done
    faults: list[float] = field(default_factory=list)

    def ratio_to(self, other: "Samples", kind: str = "done") -> Spread:
        """The rounds' ratios of this peer's time to the other's, which ran beside it."""
        return Spread.of([a / b for a, b in zip(getattr(self, kind), other.done, strict=True)])

    def spreads(self, unit: float) -> list[Spread]:
        """Host and done, in parts of a second."""
        return [Spread.of(self.host, unit), Spread.of(self.done, unit)]


def in_turns(peers: Sequence[Peer], rounds: int, calls: int, warm_up: int = 3) -> dict[str, Samples]:
    """Measure the peers: in each round each makes `calls` calls, starting with another peer each time."""
    samples = {peer.name: Samples() for peer in peers}
    for peer in peers:
        peer.take_turn(max(warm_up, 1))
    # One full turn each besides, so that memory has been touched to the depth that a turn needs.
    for peer in peers:
        peer.take_turn(calls)
    for number in range(rounds):
        first = number % len(peers)
        for peer in [*peers[first:], *peers[:first]]:
            time.sleep(_PAUSE)
            host, done, faults = peer.take_turn(calls)
            samples[peer.name].host.append(host / calls)
            samples[peer.name].done.append(done / calls)
            samples[peer.name].faults.append(faults / calls)
    return samples


# Rounding differs with the order of additions, which twelve layers and AdamW's first steps amplify.
CLOSE = {"rtol": 1e-3, "atol": 1e-4}


def check_equal(first: Any, second: Any, what: str, **close: Any) -> None:
    """Compare two peers' results at PyTorch's tolerances or others. Raises AssertionError naming `what`."""
    torch.testing.assert_close(
        _on_cpu(first), _on_cpu(second), msg=lambda text: f"{what}: peers differ\n{text}", **close
    )


def check_losses(found: Sequence[float], expected: Sequence[float], what: str, alike: int = 3) -> None:
    """Compare losses: the first steps, and the others, in which AdamW amplifies another order of additions."""
    ours, theirs = torch.tensor(found), torch.tensor(expected)
    close = torch.allclose(ours[:alike], theirs[:alike], rtol=1e-4, atol=1e-5)
    if not close or not torch.allclose(ours, theirs, rtol=5e-3, atol=1e-5):
        raise AssertionError(f"{what}: losses {found}, expected {expected}")


def _on_cpu(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    return type(value)(_on_cpu(v) for v in value) if isinstance(value, list | tuple) else value
