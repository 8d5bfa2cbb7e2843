"""`openhpu trace merge`: the traces of several processes as one file, on one clock."""

import itertools
from collections import defaultdict
from pathlib import Path
from typing import Any

from openhpu.observe.profiler.reading import Event, TraceError, read

_DEVICES = 100  # of a process in the merged file; process numbers of devices are below _HOSTS
_HOSTS = 1_000_000


def merge(paths: list[Path]) -> dict[str, Any]:
    """One document of several. Raises TraceError.

    Processes of one machine have one clock, so that times only move by the difference of the files' bases. Ranks are
    those that the files tell, else the files' order; processes, devices and arrows get numbers of their own.
    """
    documents = [read(path) for path in paths]
    if not documents:
        raise TraceError("no trace was given")
    base = min(_base(document) for document in documents)
    ranks = [document.get("distributedInfo", {}).get("rank") for document in documents]
    if None in ranks or len(set(ranks)) < len(ranks):
        ranks = list(range(len(documents)))
    events: list[dict[str, Any]] = []
    arrows = itertools.count(1)
    for rank, document in sorted(zip(ranks, documents, strict=True), key=lambda item: item[0]):
        shift = (_base(document) - base) / 1000
        numbers: dict[tuple[Any, Any], int] = defaultdict(lambda: next(arrows))
        events += (_moved(event, rank, shift, numbers) for event in document["traceEvents"])
    return {
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": base,
        "deviceProperties": [
            {**properties, "id": _process(properties.get("id"), rank)}
            for rank, document in sorted(zip(ranks, documents, strict=True), key=lambda item: item[0])
            for properties in document.get("deviceProperties", [])
        ],
        "traceEvents": events,
        "traceName": "merged",
    }


def _moved(event: Event, rank: int, shift: float, numbers: dict[tuple[Any, Any], int]) -> Event:
    event = dict(event)
    kind, arguments = event.get("ph"), event.get("args", {})
    if kind != "M" and isinstance(event.get("ts"), (int, float)):
        event["ts"] = round(event["ts"] + shift, 3)
    event["pid"] = _process(event.get("pid"), rank)
    if kind in ("s", "f", "t"):
        event["id"] = numbers[event.get("cat"), event.get("id")]
    if "correlation" in arguments:  # the number of its arrow
        event["args"] = {**arguments, "correlation": numbers["ac2g", arguments["correlation"]]}
    if kind == "M" and event.get("name") == "process_name":
        event["args"] = {"name": f"rank {rank}: {arguments.get('name')}"}
    return event


def _base(document: dict[str, Any]) -> int:
    return int(document.get("baseTimeNanoseconds", 0))


def _process(pid: Any, rank: int) -> Any:
    """A process's number in the merged file: devices side by side, then the host's processes."""
    if not isinstance(pid, int):
        return f"{pid} {rank}" if pid else pid
    return rank * _DEVICES + pid if pid < _DEVICES else _HOSTS * (rank + 1) + pid
