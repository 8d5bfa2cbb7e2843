"""Figures of steps stay exact however many steps and spans there were."""

import itertools
import random
import statistics

import pytest
import torch  # noqa: F401 - the device needs its libraries

from openhpu.observe.insight.marks import KEPT, Marks, Timeline


def program(number, seed=0):
    """`number` steps: (end, host blocked until then), and the device's busy spans. The last half is the device's."""
    choose = random.Random(seed)
    ends = [(0, 0)]
    spans = []
    now = 0
    waited = 0
    for step in range(number):
        length = choose.randrange(800, 1200)
        busy = length - 100 if step >= number // 2 else length // 4
        spans.append((now + 50, now + 50 + busy))  # may reach into the next step
        waited += busy // 2
        now += length
        ends.append((now, waited))
    return ends, spans


def expected(ends, spans):
    """The same figures, straight from their definitions."""
    rows = []
    at = 0
    for (begin, before), (end, waited) in itertools.pairwise(ends):
        while spans[at][1] <= begin and at < len(spans) - 1:
            at += 1
        near = spans[max(0, at - 1) : at + 3]
        busy = sum(max(0, min(end, b) - max(begin, a)) for a, b in near)
        rows.append((end - begin, busy, waited - before))
    total = sum(length for length, _, _ in rows)
    return {
        "count": len(ends),
        "median_ms": statistics.median(length for length, _, _ in rows) / 1e6,
        "slowest_ms": max(length for length, _, _ in rows) / 1e6,
        "device_bound_share": sum(n for n, busy, waited in rows if busy >= n - waited) / total,
        "device_busy_share": sum(busy for _, busy, _ in rows) / total,
        "host_waiting_share": sum(waited for _, _, waited in rows) / total,
    }


@pytest.fixture(scope="module")
def long_run():
    return program(100_000)


def test_a_long_run(long_run):
    ends, spans = long_run
    seen = Timeline()
    marks = seen.marks["mark_step"]
    for start in range(0, len(ends), 16):
        for time_ns, waited in ends[start : start + 16]:
            marks.add(time_ns, waited, time_ns)
        seen.add_spans(spans[start : start + 16])
    figures = marks.summary(seen.spans)
    for name, value in expected(ends, spans).items():
        assert figures[name] == pytest.approx(value), name
    assert len(marks.ends) <= 2 * KEPT
    assert len(seen.spans) <= 2 * KEPT + 16
    assert [end[0] for end in marks.ends[-9:]] == [time_ns for time_ns, _ in ends[-9:]]  # the page draws the last eight
    assert marks.ends[-1][2] == ends[-1][0]
    assert seen.spans[-1] == spans[-1]


def test_whatever_is_settled_when(long_run):
    """A short part of it, settled at any time: also within a span, and where the device's spans come late."""
    ends, spans = long_run[0][49_900:50_100], long_run[1][49_899:50_100]
    whole = Marks()
    for time_ns, waited in ends:
        whole.add(time_ns, waited, 0)
    right = whole.summary(spans)
    choose = random.Random(1)
    for _ in range(50):
        marks = Marks()
        left = list(spans)
        for time_ns, waited in ends:
            marks.add(time_ns, waited, 0)
            if choose.random() < 0.2:
                until = time_ns - choose.randrange(3000)
                marks.settle(left, until)
                if until > ends[0][0]:
                    left = [(max(a, until), b) for a, b in left if b > until]
        assert marks.summary(left) == pytest.approx(right)


def test_steps_that_the_host_submits_at_once_last_as_long_as_the_device_takes():
    """Ten steps of 2 that are submitted ahead of the device, which takes 15 for each; then a host that is slow."""
    marks = Marks()
    now = 0
    waited = 0
    marks.add(now, waited, 0)
    for _ in range(4):
        for _ in range(9):
            now += 2000
            marks.add(now, waited, 0)
        now, waited = now + 132_000, waited + 130_000
        marks.add(now, waited, 0)
    busy = [(0, now)]
    figures = marks.summary(busy)
    assert (figures["median_ms"], figures["slowest_ms"]) == pytest.approx((0.015, 0.015))
    assert figures["device_bound_share"] == 1.0
    assert figures["host_waiting_share"] == pytest.approx(130 / 150)
    for _ in range(60):
        now += 20_000
        marks.add(now, waited, 0)
    figures = marks.summary(busy)
    assert figures["median_ms"] == pytest.approx(0.020)


def test_no_steps_and_one():
    marks = Marks()
    marks.settle([(0, 5)], 10)
    assert marks.summary([]) == {"count": 0}
    marks.add(10, 0, 0)
    marks.settle([(0, 5)], 20)
    assert marks.summary([]) == {"count": 1}
