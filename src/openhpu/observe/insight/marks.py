"""Ends of steps and peaks of memory, in lists of bounded length, and the statistics that follow from them."""

import statistics
from array import array
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import islice, pairwise, takewhile

from openhpu.observe.insight.schema import StepTimes

KEPT = 20000  # step ends and busy spans that are kept one by one; older ones are summed up
_MAX_PEAKS = 4096

Site = tuple[str, int]
Span = tuple[int, int]
StepEnd = tuple[int, int, int]


class Marks:
    """Ends of steps: when, how long the host had been blocked until then, and memory in use.

    Of steps that are settled only the figures are left; at least the last KEPT ends are kept one by one.
    """

    def __init__(self) -> None:
        self.count = 0
        self.ends: list[StepEnd] = []  # when, the time that the host had been blocked until then, and memory in use
        self._lengths = array("q")  # of the settled steps, in ns
        self._sums = [0, 0, 0, 0]  # of these steps, as `_added` has them
        self._until = 0  # earlier times are settled
        self._open_busy = 0  # of the step that was under way then

    def add(self, time_ns: int, waited_ns: int, in_use: int) -> None:
        """One more step."""
        self.count += 1
        self.ends.append((time_ns, waited_ns, in_use))

    def settle(self, spans: Sequence[Span], until: int) -> None:
        """Sum up the time before `until`. `spans`: when the device was busy, all that is not settled, in order."""
        if not self.ends or until <= max(self.ends[0][0], self._until):
            return
        rows, self._open_busy = self._rows(spans, until)
        rows = _evened(rows)
        self._lengths.extend(length for length, _, _ in rows)
        self._sums = _added(self._sums, rows)
        self._until = until
        done = sum(1 for _ in takewhile(lambda end: end[0] <= until, islice(self.ends, 1, None)))
        del self.ends[:done]

    def summary(self, spans: Sequence[Span]) -> StepTimes:
        """Times per step, and their bound; `spans`: when the device was busy, without settled times."""
        rows = _evened(self._rows(sorted(spans), None)[0])
        milliseconds = [length / 1e6 for length in (*self._lengths, *(length for length, _, _ in rows))]
        if not milliseconds:
            return {"count": self.count}
        total, device_bound, busy, waited = _added(self._sums, rows)
        return {
            "count": self.count,
            "first_ms": milliseconds[0],
            "median_ms": statistics.median(milliseconds),
            "fastest_ms": min(milliseconds),
            "slowest_ms": max(milliseconds),
            "device_bound_share": device_bound / total,
            "host_bound_share": 1 - device_bound / total,
            "device_busy_share": min(1.0, busy / total),
            "host_waiting_share": min(1.0, waited / total),
        }

    def _rows(self, spans: Sequence[Span], until: int | None) -> tuple[list[StepEnd], int]:
        """Of each step except the first, whose beginning is unknown: length, device busy, host blocked, in ns.

        Only of those that ended by `until`, and how long the device was busy in the one that is under way then.
        """
        rows: list[StepEnd] = []
        at = 0

        def busy_in(begin: int, end: int) -> int:
            nonlocal at
            while at < len(spans) and spans[at][1] <= begin:
                at += 1
            busy = 0
            k = at
            while k < len(spans) and spans[k][0] < end:
                busy += max(0, min(end, spans[k][1]) - max(begin, spans[k][0]))
                k += 1
            return busy

        known = self._open_busy  # of the first step of these
        for (begin, waited_before, _), (end, waited, _) in pairwise(self.ends):
            if until is not None and end > until:
                return rows, known + busy_in(max(begin, self._until), until)
            busy, known = known + busy_in(max(begin, self._until), end), 0
            if end > begin:
                rows.append((end - begin, busy, waited - waited_before))
        if until is None or not self.ends:
            return rows, 0
        return rows, known + busy_in(max(self.ends[-1][0], self._until), until)


def _evened(rows: list[StepEnd]) -> list[StepEnd]:
    """Of steps in a row of which only the last one waited: each has their mean. The host submits these steps at once,
    ahead of a busy device, and their own lengths say nothing about the device."""
    found: list[StepEnd] = []
    ahead: list[StepEnd] = []
    for row in rows:
        length, busy, waited = row
        ahead.append(row)
        if 10 * waited < length and 10 * busy > 9 * length:
            continue
        if 10 * waited >= length:
            means = [sum(column) / len(ahead) for column in zip(*ahead, strict=True)]
            ahead = [(round(means[0]), round(means[1]), round(means[2]))] * len(ahead)
        found += ahead
        ahead = []
    return found + ahead


def _added(sums: list[int], rows: list[StepEnd]) -> list[int]:
    """The sums with those of some more steps: of all lengths, of those of steps in which the device worked longer than
    the host was not blocked, of the times that the device was busy, and of those that the host waited."""
    # A step waits for the longer of the two: the device at work, or the host that is not blocked.
    more = [(length, length if busy >= length - waited else 0, busy, waited) for length, busy, waited in rows]
    return [sum(column) for column in zip(sums, *more, strict=True)]


class Timeline:
    """The step ends of several sources, and when the device was busy, within bounds."""

    def __init__(self) -> None:
        self.marks: defaultdict[str, Marks] = defaultdict(Marks)  # by source
        self.spans: list[Span] = []

    def add_spans(self, spans: Sequence[Span]) -> None:
        """The device was busy, too; sums up old times."""
        self.spans += spans
        until = max(
            [
                min(self.spans[-KEPT:])[0] if len(self.spans) > 2 * KEPT else 0,
                *(marks.ends[-KEPT][0] for marks in self.marks.values() if len(marks.ends) > 2 * KEPT),
            ]
        )
        if not until:
            return
        self.spans.sort()  # several devices
        for marks in self.marks.values():
            marks.settle(self.spans, until)
        self.spans = [(max(begin, until), end) for begin, end in self.spans if end > until]


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
