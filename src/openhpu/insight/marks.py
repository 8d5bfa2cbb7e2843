"""Step ends and memory peaks, kept within bounds, and what follows from them."""

from __future__ import annotations

import statistics
from array import array
from collections import Counter
from collections.abc import Sequence
from typing import Any

_MAX_MARKS = 20000
_MAX_PEAKS = 4096

Site = tuple[str, int]


class Marks:
    """Ends of steps: when, how long the host had been blocked until then, and memory in use."""

    def __init__(self) -> None:
        self.count = 0
        self.times = array("q")
        self.waits = array("q")
        self.memory = array("q")

    def add(self, time_ns: int, waited_ns: int, in_use: int) -> None:
        """One more step. The first 20,000 are kept."""
        self.count += 1
        if self.count <= _MAX_MARKS:
            self.times.append(time_ns)
            self.waits.append(waited_ns)
            self.memory.append(in_use)

    def summary(self, spans: Sequence[tuple[int, int]]) -> dict[str, Any]:
        """Times per step, and what bounds them; `spans`: when the device was busy."""
        rows = self._rows(spans)
        if not rows:
            return {"count": self.count}
        total = sum(length for length, _, _ in rows)
        # The longer of the two is what a step waits for: the device at work, or the host that is not blocked.
        device_bound = sum(length for length, busy, waited in rows if busy >= length - waited)
        milliseconds = [length / 1e6 for length, _, _ in rows]
        return {
            "count": self.count,
            "first_ms": milliseconds[0],
            "median_ms": statistics.median(milliseconds),
            "fastest_ms": min(milliseconds),
            "slowest_ms": max(milliseconds),
            "device_bound_share": device_bound / total,
            "host_bound_share": 1 - device_bound / total,
            "device_busy_share": min(1.0, sum(busy for _, busy, _ in rows) / total),
            "host_waiting_share": min(1.0, sum(waited for _, _, waited in rows) / total),
        }

    def _rows(self, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
        """Of each step but the first, whose beginning nobody saw: length, device busy, host blocked, in ns."""
        spans = sorted(spans)
        rows, at = [], 0
        for i in range(1, len(self.times)):
            begin, end = self.times[i - 1], self.times[i]
            while at < len(spans) and spans[at][1] <= begin:
                at += 1
            busy, k = 0, at
            while k < len(spans) and spans[k][0] < end:
                busy += min(end, spans[k][1]) - max(begin, spans[k][0])
                k += 1
            if end > begin:
                rows.append((end - begin, busy, self.waits[i] - self.waits[i - 1]))
        return rows


def choose(marks: dict[str, Marks]) -> tuple[str | None, Marks]:
    """Whose step ends count: the optimizer's with most steps, else mark_step's."""
    optimizers = {name: found for name, found in marks.items() if name.startswith("optimizer")}
    if optimizers:
        return "optimizer", max(optimizers.values(), key=lambda found: found.count)
    if "mark_step" in marks:
        return "mark_step", marks["mark_step"]
    return None, Marks()


class Peaks:
    """The climbs of memory in use to each new peak."""

    def __init__(self) -> None:
        self._highest: dict[int, int] = {}  # by device
        self._climbs: list[tuple[int, int, int, Site | None, int]] = []  # time, bytes, growth, line, step

    def add(self, device: int, size: int, site: Site | None, time_ns: int, step: int) -> None:
        """Memory in use rose to `size` bytes by an allocation of that line."""
        growth = size - self._highest.get(device, 0)
        if growth <= 0:
            return
        self._highest[device] = size
        self._climbs.append((time_ns, size, growth, site, step))
        if len(self._climbs) > _MAX_PEAKS:
            self._climbs = self._climbs[_MAX_PEAKS // 2 :]

    def highest(self) -> int:
        """Bytes at the highest peak of any device."""
        return max(self._highest.values(), default=0)

    def line(self) -> tuple[Site | None, int]:
        """The line that contributed most to the last climb, and its bytes.

        The last allocation before a peak is often a small one; what matters is what memory rose by in that step, in
        the upper half of the climb.
        """
        if not self._climbs:
            return None, 0
        peak = self.highest()
        at = max(self._climbs, key=lambda climb: climb[1])[4]
        by_line: Counter[Site | None] = Counter()
        for _, size, growth, site, step in self._climbs:
            if step == at and 2 * size >= peak:
                by_line[site] += growth
        site, growth = max(by_line.items(), key=lambda item: (item[0] is not None, item[1]))
        return site, growth

    def over_time(self) -> list[tuple[int, int]]:
        """(time, bytes) of each new peak."""
        return [(time_ns, size) for time_ns, size, _, _, _ in self._climbs]
