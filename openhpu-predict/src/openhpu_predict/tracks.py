"""A predicted step as a track of a trace, with a lane for each engine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from openhpu_predict.prediction import Prediction

ENGINES = ("MME", "TPC", "DMA", "network", "host")
_PROCESS = 90  # behind the devices, whose numbers are their indices
_BEHIND = 6_000_000


def spans(found: Prediction) -> Iterator[tuple[str, float, float, int]]:
    """Engine, begin and length in microseconds, and number of each kernel."""
    for number, kernel in enumerate(found.timeline.kernels):
        yield kernel.engine, kernel.begin * 1e6, kernel.seconds * 1e6, number


def events(found: Prediction, begin: float = 0.0) -> list[dict[str, Any]]:
    """Events in Chrome's format; the step begins at `begin`, microseconds. No event of a lane overlaps another one."""

    def meta(kind: str, lane: int, **values: Any) -> dict[str, Any]:
        return {"ph": "M", "name": kind, "pid": _PROCESS, "tid": lane, "ts": 0, "args": values}

    rows = [meta("process_name", 0, name=found.title), meta("process_sort_index", 0, sort_index=_BEHIND)]
    for lane, engine in enumerate(ENGINES):
        rows += [meta("thread_name", lane, name=engine), meta("thread_sort_index", lane, sort_index=lane)]
    ends = dict.fromkeys(ENGINES, begin)
    for engine, start, length, number in spans(found):
        kernel = found.timeline.kernels[number]
        first = found.nodes[kernel.nodes[0]]
        start = max(round(begin + start, 3), ends[engine])
        ends[engine] = round(start + length, 3)
        site = {"line": f"{Path(first.site[0]).name}:{first.site[1]}"} if first.site else {}
        rows.append(
            {
                "ph": "X",
                "cat": "predicted",
                "pid": _PROCESS,
                "tid": ENGINES.index(engine),
                "ts": start,
                "dur": max(round(length - 0.002, 3), 0.0),
                "name": first.op + (f" + {len(kernel.nodes) - 1}" if kernel.nodes[1:] else ""),
                "args": {"bound by": kernel.bound, "layer": first.layer, "bytes": round(kernel.bytes), **site},
            }
        )
    return rows
