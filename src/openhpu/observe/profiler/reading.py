"""Trace files, ours and kineto's, read back: events by their kind."""

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

DEVICE_CATEGORIES = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
Event = dict[str, Any]


class TraceError(ValueError):
    """A file is no trace; the text names it."""


def read(path: Path) -> dict[str, Any]:
    """The document in a file, zipped or not. Raises TraceError."""
    try:
        data = path.read_bytes()
        document = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    except (OSError, ValueError, EOFError, zlib.error, RecursionError) as error:
        raise TraceError(f"{path} can't be read as a trace: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("traceEvents"), list):
        raise TraceError(f"{path} is no trace: it has no list traceEvents")
    return document


def spans(document: dict[str, Any]) -> list[Event]:
    """Events with a duration."""
    return [e for e in document["traceEvents"] if e.get("ph") == "X"]


def commands(document: dict[str, Any]) -> list[Event]:
    """The commands of devices, without the parts of recipes and graphs, by time."""
    return sorted((e for e in spans(document) if e.get("cat") in DEVICE_CATEGORIES), key=lambda e: e["ts"])


def union_us(events: list[Event]) -> float:
    """How long at least one of them ran."""
    total = 0.0
    end = float("-inf")
    for event in sorted(events, key=lambda e: e["ts"]):
        begin = float(event["ts"])
        stop = float(event["ts"]) + float(event["dur"])
        total += max(0.0, stop - max(begin, end))
        end = max(end, stop)
    return total
