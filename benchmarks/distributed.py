"""distributed: two ranks on hpu beside two ranks on the CPU device with Gloo, each rank a process with one thread.

Peers are asked in turns; those that wait do nothing. A peer's time is its slower rank's.
"""

import contextlib
import functools
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from benchmarks.children import Peer
from benchmarks.parts import part
from benchmarks.report import Table
from benchmarks.timing import ROUNDS_TO_QUOTE, Spread

_RANKS = 2
_STEPS = {"mlp ddp": 40, "gpt ddp": 4, "gpt fsdp": 4}
_MESSAGES = {1 << 10: 60, 1 << 22: 10}
# To see that it runs: the time of the others is that of imports and of compilers.
_QUICK_STEPS = ("mlp ddp", "gpt fsdp")


@dataclass(frozen=True)
class Kind:
    """How a peer trains."""

    title: str
    device: str
    lazy: bool = False


_KINDS = (Kind("CPU, Gloo", "cpu"), Kind("hpu, eager", "hpu"), Kind("hpu, lazy", "hpu", lazy=True))


class Ranks:
    """The ranks of one kind. Use with `with`."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
        variables |= {"WORLD_SIZE": str(_RANKS), "LOCAL_WORLD_SIZE": str(_RANKS)}
        variables["PT_HPU_LAZY_MODE"] = str(int(kind.lazy))
        self._ranks = [
            Peer("distributed_probe:Rank", kind.device, environment={**variables, "RANK": rank, "LOCAL_RANK": rank})
            for rank in map(str, range(_RANKS))
        ]

    def __enter__(self) -> Self:
        self._stack = contextlib.ExitStack()
        for rank in self._ranks:
            self._stack.enter_context(rank)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def ask(self, question: str, *arguments: Any) -> list[Any]:
        """What each rank answers."""
        for rank in self._ranks:
            rank.ask(question, *arguments)
        return [rank.answer() for rank in self._ranks]


def distributed(rounds: int) -> list[Table]:
    """Steps, and all_reduce of a small and a large tensor."""
    steps = Table("Two ranks, ms a step", ["step", *(kind.title for kind in _KINDS), "eager / CPU", "lazy / CPU"])
    messages = Table(
        "Two ranks, us an all_reduce that is waited for",
        ["size", *(k.title for k in _KINDS), "eager / CPU", "lazy / CPU"],
    )
    quick = rounds < ROUNDS_TO_QUOTE
    wait_s = 20 if quick else 60  # at most, for a training's recipes
    with contextlib.ExitStack() as stack:
        peers = functools.cache(lambda: [stack.enter_context(Ranks(kind)) for kind in _KINDS])
        for kind, number in _STEPS.items():
            if not quick or kind in _QUICK_STEPS:
                found, note = part(kind, _steps, peers, kind, number, rounds, wait_s)
                steps.add(kind, *row(found, 1e3))
                steps.notes.append(note)
        for nbytes, number in _MESSAGES.items():
            name = f"{nbytes >> 10} KiB"
            found = part(name, _reduced, peers, rounds, nbytes, number)
            messages.add(name, *row(found, 1e6))
    return [steps, messages]


def _reduced(peers: Callable[[], list[Ranks]], rounds: int, nbytes: int, number: int) -> list[list[float]]:
    return in_turns(peers(), rounds, "reduce", nbytes, number)


def _steps(
    peers: Callable[[], list[Ranks]], kind: str, number: int, rounds: int, wait_s: int
) -> tuple[list[list[float]], str]:
    """Times of a kind of step, and a note on its losses and recipes."""
    losses = [peer.ask("start", kind)[0] for peer in peers()]
    apart = max(abs(a - b) / abs(b) for other in losses[1:] for a, b in zip(other, losses[0], strict=True))
    compiled = peers()[-1].ask("prepare", wait_s)[0]
    found = in_turns(peers(), rounds, "train", number)
    counted = peers()[-1].ask("counters", 4)[0]
    return found, (
        f"{kind}: losses of 50 steps differ by at most {apart:.1e} of their value; in lazy mode "
        f"{counted['ops_in_recipes']} of {counted['ops_recorded']} operators of four steps ran in recipes"
        + ("" if compiled else f" (not all were compiled after {wait_s} s)")
    )


def in_turns(peers: Sequence[Ranks], rounds: int, question: str, *arguments: Any) -> list[list[float]]:
    """For each peer its times, of each round its slower rank's."""
    times: list[list[float]] = [[] for _ in peers]
    for number in range(rounds):
        for position in range(len(peers)):
            at = (number + position) % len(peers)
            times[at].append(max(peers[at].ask(question, *arguments)))
    return times


def row(found: Sequence[Sequence[float]], unit: float) -> list[Spread]:
    """Each peer's times, the CPU's first, and the ratios of the others to those; `unit`: of the times, in a second."""
    cpu = found[0]
    return [
        *(Spread.of(times, unit) for times in found),
        *(Spread.of_ratios(times, cpu) for times in found[1:]),
    ]
