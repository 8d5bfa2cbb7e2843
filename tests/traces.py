"""Traces in tests: what a file must be for every reader, and its events."""

import json
import math
from collections import Counter, defaultdict

DEVICE = ("kernel", "gpu_memcpy", "cuda_sync")  # with an arrow each
SLACK_US = 0.0015  # times have three decimals


def events_of(path):
    """The events of a trace file that is valid."""
    document = json.loads(path.read_text(), parse_constant=refuse)
    check(document)
    return document["traceEvents"]


def refuse(constant):
    raise AssertionError(f"{constant} in a trace")


def check(document):
    """Numbers are finite, processes and threads integers, events nest, and each command has one arrow that goes on."""
    events = document["traceEvents"]
    tracks = defaultdict(list)
    for event in events:
        assert isinstance(event["ph"], str)
        if event.get("cat") == "Trace" or event.get("pid") in ("Spans", "Traces", ""):
            continue  # kineto's own rows have names
        if event["ph"] != "M" or "pid" in event:
            assert isinstance(event["pid"], int), event
            assert isinstance(event.get("tid", 0), int), event
        for name in ("ts", "dur"):
            if name in event:
                assert math.isfinite(event[name]), event
                assert 0 <= event[name] < 2**53, event
        if event["ph"] == "X":
            assert event["dur"] >= 0, event
            assert event["name"], event
            tracks[event["pid"], event["tid"]].append(event)
    for track in tracks.values():
        check_nesting(track)
    check_arrows(events, tracks)


def check_nesting(track):
    around = []
    for event in sorted(track, key=lambda e: (e["ts"], -e["dur"])):
        end = event["ts"] + event["dur"]
        while around and around[-1][0] <= event["ts"] + SLACK_US:
            around.pop()
        if around and end > around[-1][0] + SLACK_US:
            raise AssertionError(f"{event} crosses the end of {around[-1][1]}")
        around.append((end, event))


def check_arrows(events, tracks):
    """Each command on a device has one arrow, from a call on the host that encloses its begin."""
    arrows = [e for e in events if e.get("cat") == "ac2g"]
    starts = {e["id"]: e for e in arrows if e["ph"] == "s"}
    ends = {e["id"]: e for e in arrows if e["ph"] == "f"}
    assert Counter(e["ph"] for e in arrows) == Counter({"s": len(starts), "f": len(ends)} if arrows else {})
    assert starts.keys() == ends.keys()
    commands = [e for e in events if e["ph"] == "X" and e.get("cat") in DEVICE]
    assert {e["args"]["correlation"] for e in commands} == ends.keys()
    assert len(commands) == len(ends)
    for command in commands:
        number = command["args"]["correlation"]
        start, end = starts[number], ends[number]
        assert (end["pid"], end["tid"], end["ts"]) == (command["pid"], command["tid"], command["ts"])
        assert start["ts"] <= end["ts"] + SLACK_US
        launches = tracks[start["pid"], start["tid"]]
        assert any(
            e["args"].get("correlation") == number and e["ts"] <= start["ts"] <= e["ts"] + e["dur"] + SLACK_US
            for e in launches
            if e["cat"] == "cuda_runtime"
        ), command


def named(events, category, name=None):
    """Events of a category, by begin."""
    found = [e for e in events if e.get("cat") == category and e["ph"] == "X" and name in (None, e["name"])]
    return sorted(found, key=lambda e: e["ts"])


def inside(inner, outer):
    """Whether an event lies within another one of its track."""
    return (
        (inner["pid"], inner["tid"]) == (outer["pid"], outer["tid"])
        and outer["ts"] - SLACK_US <= inner["ts"]
        and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + SLACK_US
    )
