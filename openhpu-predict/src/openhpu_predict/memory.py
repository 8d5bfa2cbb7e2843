"""The peak of the device's memory, what it consists of, and the first line at which a device has too little."""

from __future__ import annotations

import dataclasses
from collections import Counter

from openhpu_predict.recording import Recording, Site


@dataclasses.dataclass
class Memory:
    """Bytes, as the device's allocator counts them. A Gaudi's own workspace and code are not in it."""

    peak: int
    parts: dict[str, int]  # weights, gradients, optimizer, activations at the peak
    peak_site: Site | None
    over_site: Site | None = None  # the first line that needs more than the device has
    short: int = 0  # what is missing at the peak


def memory(recording: Recording, capacity: float) -> Memory:
    """The peak over all recorded steps. `capacity`: the device's memory in bytes."""
    changes: Counter[int] = Counter()
    for block in recording.blocks:
        changes[max(block.born, 0)] += block.bytes
        if block.died is not None:
            changes[max(block.died, 0)] -= block.bytes
    live = peak = at = 0
    over: int | None = None
    for number in sorted(changes):
        live += changes[number]
        if live > peak:
            peak, at = live, number
        if over is None and live > capacity:
            over = number
    parts: Counter[str] = Counter()
    for block in recording.blocks:
        if max(block.born, 0) <= at and (block.died is None or block.died > at):
            parts[block.category or "activations"] += block.bytes
    found = Memory(peak, dict(parts), _site(recording, at))
    if over is not None:
        found.over_site, found.short = _site(recording, over), int(peak - capacity)
    return found


def _site(recording: Recording, number: int) -> Site | None:
    nodes = recording.nodes
    return nodes[min(number, len(nodes) - 1)].site if nodes else None
