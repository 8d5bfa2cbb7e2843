"""The documents of a run, one for each process: how they are read back and ordered, and what they count."""

from pathlib import Path
from typing import Any, NamedTuple, cast

from openhpu.observe.insight import schema
from openhpu.observe.insight.schema import FORMAT, Document
from openhpu.settings import folders


class Counted(NamedTuple):
    """Events that are counted by line: in which part of the document.

    `keys`: the parameters that tell rows apart beside the line. `number`: the one that says how many there are
    (empty: each event is one). `sums`: others that add up.
    """

    part: schema.Part
    keys: tuple[str, ...] = ("op",)
    number: str = ""
    sums: tuple[str, ...] = ()


COUNTED = {
    "cpu_fallback": Counted("fallbacks", ("op", "dtype")),
    "indices_out_of_range": Counted("indices_out_of_range", number="indices", sums=("padding",)),
    "int64_overflow": Counted("int64_overflows", number="overflows"),
    "difference": Counted("differences", ("kind",)),
    "operand_moved": Counted("moved_operands"),
    "not_run": Counted("not_run", ("what", "op"), sums=("bytes",)),
    "blocking_read": Counted("blocking_reads", sums=("bytes", "wait_ns")),
    "wait": Counted("waits", ("kind", "op"), sums=("wait_ns",)),  # in two parts: of sizes, and those of this device
}


def read_all(folder: Path) -> list[Document]:
    """The documents in `folder`: by rank, then by the time at which the process began."""
    found: list[Document] = []
    for path in folder.glob("*.json"):
        try:
            document = folders.read_object(path, 1 << 30)
        except (OSError, ValueError):  # a process of another kind, or one that could not finish writing
            continue
        if document.get("format") == FORMAT:
            found.append(cast("Document", document))
    return sorted(found, key=lambda d: (d["process"]["rank"] is None, d["process"]["rank"], d["process"]["started"]))


def empty(command: str, complete: bool = True) -> Document:
    """The document of a script that opened no device; not `complete`: a signal ended it, so that nobody knows."""
    return {
        "format": FORMAT,
        "complete": complete,
        "process": {
            "pid": None,
            "parent": None,
            "rank": None,
            "command": command,
            "mode": None,
            "generation": None,
            "started": None,
            "seconds": None,
            "openhpu": None,
            "torch": None,
        },
        "steps": {"counted_by": None, "count": 0},
        "timeline": {"steps_us": [], "device_us": [], "compilations_us": []},
        "graphs": {
            "distinct": 0,
            "recorded": 0,
            "as_recipes": 0,
            "node_by_node": 0,
            "cut": 0,
            "compiling": 0,
            "seen_once": [],
        },
        "phases": {"phases": [], "later": []},
        "captures": [],
        "captures_later": [],
        "captures_more": 0,
        "graphs_checked": 0,
        "graphs_compared": [0, 0],
        "graph_differences": [],
        "graphs_unchecked": [],
        "recipes": [],
        "recompilations": [],
        "fallbacks": [],
        "indices_out_of_range": [],
        "int64_overflows": [],
        "differences": [],
        "moved_operands": [],
        "not_run": [],
        "blocking_reads": [],
        "shape_waits": [],
        "own_waits": [],
        "collectives": [],
        "user_operators": [],
        "memory": {
            "peak_bytes": 0,
            "peak_file": None,
            "peak_line": None,
            "peak_growth_bytes": 0,
            "limit_bytes": 0,
            "in_use_bytes": 0,
            "over_time": [],
        },
        "errors": [],
        "counters": {},
        "sections": [],
    }


def collectives_of_ranks(documents: list[Document]) -> list[schema.SharedCollective]:
    """The collectives of all ranks, by operator and line, those that took longest first.

    `wait_ns`: of the rank that waited longest. `skew_ns`: how much less the one waited that waited least; the others
    waited that long for it.
    """
    found: dict[tuple[str, str | None, int | None], list[tuple[int | None, schema.Collective]]] = {}
    for document in documents:
        rank = document["process"]["rank"]
        for row in document["collectives"]:
            found.setdefault((row["op"], row["file"], row["line"]), []).append((rank, row))
    rows: list[schema.SharedCollective] = []
    for rows_of_ranks in found.values():
        slowest, least = min(rows_of_ranks, key=lambda one: one[1]["wait_ns"])
        rank, most = max(rows_of_ranks, key=lambda one: one[1]["wait_ns"])
        skew = most["wait_ns"] - least["wait_ns"]
        rows.append({**most, "rank": rank, "skew_ns": skew, "slowest": slowest, "ranks": len(rows_of_ranks)})
    return sorted(rows, key=lambda row: -row["wait_ns"])


def changed(params: dict[str, Any]) -> schema.Change:
    """The event `recompilation` as a record of one."""
    dimension = None if params["dimension"] < 0 else params["dimension"]
    return cast("schema.Change", {**params, "dimension": dimension, "after": [params["after"]]})
