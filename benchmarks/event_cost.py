"""events: the cost of the event source for an operator, without and with a listener."""

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.report import Table
from benchmarks.timing import Peer, Spread, in_turns
from openhpu import events


def _peer(name: str, kind: str | None, call: Callable[..., Any], args: tuple[Any, ...]) -> Peer:
    held: list[events.Subscription] = []

    def listen() -> None:
        if kind is not None:
            held.append(events.subscribe(kind, lambda event: None))

    def stop() -> None:
        while held:
            events.unsubscribe(held.pop())

    return Peer(name, call, args, on_hpu=True, before=listen, after=stop)


def event_cost(rounds: int) -> list[Table]:
    """Operations that are events and one that is none."""
    x, source = torch.randn(8, 8, device="hpu"), torch.randn(8, 8)
    cases: list[tuple[str, str, Callable[..., Any], tuple[Any, ...]]] = [
        ("add 8x8, no event", "copy", torch.add, (x, x)),
        ("copy to hpu, one event", "copy", x.copy_, (source,)),
        ("item(), one event", "blocking_read", x[0, 0].item, ()),
    ]
    table = Table(
        "Cost of the event source, us a call until done, 500 calls in a row",
        ["operation", "nobody listens", "somebody listens to other events", "somebody listens", "other / nobody"],
    )
    for title, kind, call, args in cases:
        peers = [_peer("none", None, call, args), _peer("other", "error", call, args), _peer("own", kind, call, args)]
        found = in_turns(peers, rounds, 500)
        us = [Spread.of(samples.done, 1e6) for samples in found.values()]
        table.rows.append([title, *us, found["other"].ratio_to(found["none"])])
    table.notes.append("The listener is an empty Python function.")
    return [table]
