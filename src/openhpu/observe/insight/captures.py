"""HPU graphs of a process: where and why each was captured, how often it was replayed, and what it holds."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from openhpu.observe.insight import schema
from openhpu.observe.insight.phases import BEFORE

_KEPT = 500
_MOST_COMPARED = 100  # earlier graphs of the same function
_MOST_DIFFERENCES = 3
_MANY = 6  # graphs of one function from which on padding is advised
_LENGTHS = 4  # the lengths that the advice pads to
_TENSOR = re.compile(r"\w+\[([\d, ]*)\]$")

Params = dict[str, Any]  # of an event, and later also its place


class Captures:
    """The captures of one process. The caller serialises the calls."""

    def __init__(self) -> None:
        self._rows: list[Params] = []
        self._more = 0
        self._checked = 0
        self._graphs: dict[int, bool] = {}  # by number: whether one of its replays was checked
        self._unequal: Counter[tuple[Any, ...]] = Counter()
        self._unchecked: Counter[tuple[Any, ...]] = Counter()

    def check(self, event: Params, place: schema.Place) -> None:
        """The event `graph_check`, and the line."""
        key = (event["owner"], event["op"], place["file"], place["line"], event["text"])
        compared = event["outcome"] in ("equal", "different")
        self._checked += compared
        if event["graph"]:
            self._graphs[event["graph"]] = self._graphs.get(event["graph"], False) or compared
        if event["outcome"] != "equal":
            counts = self._unchecked if event["outcome"] == "unchecked" else self._unequal
            counts[key if key in counts or len(counts) < _KEPT else (*key[:4], "")] += 1

    def add(self, event: Params, place: schema.Place, phase: str) -> None:
        """The event `hpu_graph`, its line, and the phase of the script."""
        if len(self._rows) == _KEPT:
            self._more += 1
            return
        self._rows.append({**event, **place, "phase": phase, "differs": self._difference(event, place)})

    def _difference(self, event: Params, place: schema.Place) -> list[str]:
        """What differs from the nearest earlier graph of the same function; of a capture by hand, of the same line."""
        alike = [r for r in self._rows if _code(r) == _code({**event, **place})][-_MOST_COMPARED:]
        found = [_differences(r["inputs"], event["inputs"]) for r in reversed(alike)]
        return min(found, key=len)[:_MOST_DIFFERENCES] if found else []

    def document(self) -> schema.CapturedGraphs:
        """`captures`: a row for each graph. `captures_later`: those after the warm-up. `captures_more`: not kept.

        Of checked replays: `graphs_checked` in number, `graph_differences`, and `graphs_unchecked` with the reason.
        `graphs_compared`: of how many graphs a replay was checked, and of how many one was to be.
        """
        rows: list[Any] = [{**row, "replays": row["replays"].count} for row in self._rows]
        later = [row for row in rows if row["phase"] not in BEFORE]
        return {
            "captures": rows,
            "captures_later": later,
            "captures_more": self._more,
            "graphs_checked": self._checked,
            "graphs_compared": [sum(self._graphs.values()), len(self._graphs)],
            "graph_differences": _counted(self._unequal),
            "graphs_unchecked": _counted(self._unchecked),
        }


def _counted(counts: Counter[tuple[Any, ...]]) -> list[schema.Check]:
    return [
        {"owner": owner, "op": op, "file": file, "line": line, "text": text, "count": count}
        for (owner, op, file, line, text), count in counts.items()
    ]


def _code(row: Mapping[str, Any]) -> Any:
    """The function of a graph; of a capture by hand, its line."""
    return row["owner"] or (row["file"], row["line"])


def _differences(before: dict[str, str], after: dict[str, str]) -> list[str]:
    places = dict.fromkeys([*after, *before])
    return [
        f"{place}: {before.get(place, 'absent')}, now {after.get(place, 'absent')}"
        for place in places
        if before.get(place) != after.get(place)
    ]


def paddings(rows: list[schema.Capture]) -> Iterator[tuple[schema.Capture, int, list[int]]]:
    """Functions whose graphs differ in one length alone: its last graph, how many there are, lengths to pad to."""
    by_function: dict[tuple[Any, ...], list[schema.Capture]] = defaultdict(list)
    for row in rows:
        pattern = tuple((place, _kind(text), len(_sizes(text))) for place, text in row["inputs"].items())
        by_function[_code(row), pattern].append(row)
    for alike in by_function.values():
        sizes = [[int(n) for text in row["inputs"].values() for n in _sizes(text)] for row in alike]
        varying = {column for column in zip(*sizes, strict=True) if len({*column}) > 1}
        if len(varying) != 1:
            continue
        lengths = sorted({*varying.pop()})
        if len(lengths) >= _MANY:
            step = len(lengths) / _LENGTHS
            yield alike[-1], len(alike), [lengths[round(step * k) - 1] for k in range(1, _LENGTHS + 1)]


def _kind(text: str) -> str:
    """The dtype of a tensor, or the text of a value."""
    return text.partition("[")[0] if _TENSOR.match(text) else text


def _sizes(text: str) -> list[str]:
    found = _TENSOR.match(text)
    return found[1].split(", ") if found and found[1] else []
