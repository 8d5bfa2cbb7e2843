"""The documents of a run, one for each process, read back and ordered."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from openhpu.observe.differences import BY_KIND, DIFFERENCES
from openhpu.observe.insight import schema
from openhpu.observe.insight.captures import paddings
from openhpu.observe.insight.phases import AFTER, WARM_UP
from openhpu.observe.insight.schema import FORMAT, Document
from openhpu.settings import folders

_MEMORY_GIB = {"Gaudi 2": 96, "Gaudi 3": 128}

Record = Mapping[str, Any]  # a row of any part


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


def together(documents: list[Document]) -> list[schema.SharedCollective]:
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


def title(document: Document) -> str:
    """Which process of the run it is."""
    process = document["process"]
    return f"rank {process['rank']}" if process["rank"] is not None else f"process {process['pid']}"


def nothing(document: Document) -> str:
    """Why a document is empty."""
    if document["complete"]:
        return "no hpu device was opened: the script did not put a tensor on hpu"
    return "nothing was recorded: a signal ended the script before the first record"


def where(record: Record, prefix: str = "") -> str:
    """file:line of a record, the file by its name alone."""
    file, line = record[f"{prefix}file"], record[f"{prefix}line"]
    return f"{Path(file).name}:{line}" if file else "no line of the script"


def size(number: float, digits: int = 1) -> str:
    """Bytes, readable."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(number) < 1024 or unit == "GiB":
            break
        number /= 1024
    return f"{number:.0f} B" if unit == "B" else f"{number:.{digits}f} {unit}"


def wait(ns: int) -> str:
    """A time that the host waited, in milliseconds."""
    return f"{ns / 1e6:,.1f} ms"


def plural(number: int, one: str, many: str | None = None) -> str:
    """`3 steps`, `1 step`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def shortened(lines: list[str]) -> list[str]:
    """The first ten of them, and how many more there are."""
    return lines if len(lines) <= 10 else [*lines[:10], f"and {len(lines) - 10} more"]


def times(record: Record, text: str, one: str = "time") -> str:
    """A line of the script, what it did, and how often."""
    phase = f" in {record['phase']}" if record.get("phase") else ""
    return f"{where(record)}: {text}, {plural(record['count'], one)}{phase}"


_LEFT_OUT = {
    "write": "{op} did not change older memory",
    "read": "{op} read what nothing had computed",
    "kept": "made here, and alive after the mode without contents",
}


def left_out(record: schema.NotRun) -> str:
    """What PT_COMPILE_ONLY_MODE left out, that a script can see."""
    return f"{_LEFT_OUT[record['what']].format(op=record['op'])} ({size(record['bytes'])} in all)"


def bound(steps: schema.Steps) -> str:
    """Which side the steps wait for, in words."""
    share = steps["device_bound_share"]
    if share >= 0.5:
        return f"device-bound in {share:.0%} of the time"
    return f"host-bound in {1 - share:.0%} of the time"


def by_line(graphs: list[schema.SeenGraph]) -> list[tuple[str, str, int]]:
    """Graphs by the line with which they begin and their operators: line, operators in words, how many such graphs.

    The largest graphs first; of a line whose graphs differ in size, the range of sizes.
    """
    sizes: dict[str, list[int]] = {}
    for graph in graphs:
        sizes.setdefault(where(graph), []).append(graph["operators"])
    rows = []
    for line, found in sorted(sizes.items(), key=lambda item: -max(item[1])):
        low, high = min(found), max(found)
        rows.append((line, plural(high, "operator") if low == high else f"{low:,} to {high:,} operators", len(found)))
    return rows


def unfinished(graphs: schema.Graphs) -> str:
    """A sentence if the script was faster than the compiler; otherwise empty."""
    if not graphs["compiling"]:
        return ""
    number = graphs["compiling"]
    return (
        f"{plural(number, 'graph')} {'was' if number == 1 else 'were'} still being compiled when the script ended, and "
        "ran operator by operator until then: let it run longer, or see it with OPENHPU_COMPILE=sync"
    )


def fallback(record: Record) -> str:
    """The operator that ran on the host, and on which dtype if it was called with a tensor."""
    return f"{record['op']} on {record['dtype']}" if record["dtype"] else str(record["op"])


def out_of_range(record: schema.OutOfRange) -> str:
    """The operator whose indices were out of range, and how many were."""
    padding = f", {record['padding']:,} of them -1" if record["padding"] else ""
    return f"{record['op']}, {plural(record['count'], 'index', 'indices')}{padding}"


def changed(params: dict[str, Any]) -> schema.Change:
    """The event `recompilation` as a record of one."""
    dimension = None if params["dimension"] < 0 else params["dimension"]
    return cast("schema.Change", {**params, "dimension": dimension, "after": [params["after"]]})


def recompilation(record: schema.Change) -> str:
    """The difference, in words."""
    if record["cause"] == "guard":
        return f"{record['op']}: a guard failed: {record['argument']}"
    after = ", ".join(record["after"][:6]) + (", ..." if len(record["after"]) > 6 else "")
    dimension = record["dimension"]
    what = {
        "size": "number of dimensions" if dimension is None else f"size of dimension {dimension}",
        "stride": f"stride of dimension {dimension}",
        "dtype": "dtype",
        "number": "number that was compiled in",
        "memory": "memory of the operators (offsets, storages, or the results that are needed after the step)",
        "graph": "operators",
    }.get(record["cause"], record["cause"])
    operand = f" of `{record['argument']}`" if record["argument"] else ""
    values = f": {record['before']} before, then {after}" if record["before"] or after else ""
    return f"{record['op']}: {what}{operand}{values}{_origin(record)}"


def recompiled(record: schema.Recompilation) -> str:
    """The line of a recompilation, the difference, and how often it came."""
    return f"{where(record)}: {recompilation(record)} ({plural(record['count'], 'time')})"


def _origin(record: schema.Change) -> str:
    """The operator, dependent on values, that gave the size; otherwise empty."""
    if not record.get("origin"):
        return ""
    operator = f"{record['origin_op']} at {where(record, 'origin_')}"
    if record["origin"] == "from":
        return f" (sizes come from {operator})"
    return f" (after {operator}, which returned this size)"


def own_waits(rows: list[schema.KindOfWait]) -> list[str]:
    """Waits that a Gaudi does not have, a line for each kind."""
    words = {"first_sight": "at the first call of an operator", "queue": "for room in the queue"}
    return [
        f"{plural(sum(r['count'] for r in found), 'wait')} {text}, {wait(sum(r['wait_ns'] for r in found))}"
        for kind, text in words.items()
        if (found := [r for r in rows if r["kind"] == kind])
    ]


def waited(record: schema.Wait) -> str:
    """An operator, and how often and for how long the host waited in it."""
    return f"{times(record, record['op'])}, waited {wait(record['wait_ns'])}"


def difference(record: schema.Difference) -> str:
    """What a script does that a Gaudi refuses or computes otherwise, in words."""
    row = BY_KIND[record["kind"]]
    return f"{row.what}; on a Gaudi: {row.gaudi}"


def user_operator(record: schema.UserOperator) -> str:
    """A user's operator with its guid and its kernel, in words."""
    lock = ", which takes Python's lock in each call, also in graphs" if record["python"] else ""
    name = f"{record['schema']} ({record['guid']})"
    return f"{name}: {plural(record['calls'], 'call')}, {record['kernel']}{lock}"


def needs(document: Document) -> list[str]:
    """What the script needs on a Gaudi, each with the line that needs it."""
    seen: dict[str, str] = {}
    for row in DIFFERENCES:
        for record in document["differences"]:
            if record["kind"] == row.kind:
                seen.setdefault(row.needs, where(record))
        counted: Sequence[Record] = ()
        if row.event == "int64_overflow":
            counted = document["int64_overflows"]
        elif row.event == "indices_out_of_range":
            counted = document["indices_out_of_range"]
        if counted:
            seen.setdefault(row.needs, where(counted[0]))
    return [f"{what} ({line})" for what, line in seen.items()]


def phases(document: Document) -> list[str]:
    """The phases of a script, with their steps, new graphs, recipes and memory, in words."""
    rows = document["phases"]["phases"]
    before = 0
    found = []
    for one in rows:
        words = [plural(one["steps"], "step"), plural(one["graphs"], "new graph")]
        words += [plural(one["recipes"], "recipe") + " compiled"] if one["recipes"] else []
        words += [f"{size(one['bytes'])} in use at its end"] if one["bytes"] != before else []
        if one is not rows[0] or len(words) > 2 or one["steps"] or one["graphs"]:  # an empty warm-up is none
            found.append(f"{one['name']}: {', '.join(words)}")
        before = one["bytes"]
    return found


def too_large(document: Document) -> list[str]:
    """The devices whose memory is smaller than the peak, each with the phase in which memory grew most."""
    peak = document["memory"]["peak_bytes"]
    ends = [0, *(one["bytes"] for one in document["phases"]["phases"])]
    growth = [(after - before, number) for number, (before, after) in enumerate(itertools.pairwise(ends))]
    most, number = max(growth, default=(0, 0))
    phase = f"; {size(most)} came in {document['phases']['phases'][number]['name']}" if most > 0 else ""
    return [
        f"{name} has {gib} GiB, the peak is {size(peak)}{phase}"
        for name, gib in _MEMORY_GIB.items()
        if peak > gib << 30
    ]


def unended(document: Document) -> str:
    """What a document says that was not written at the process's end, in words."""
    if document["complete"]:
        return ""
    if document.get("running"):
        return "; it is still running"
    return "; the process was killed, and the last moments before that are missing"


def later(record: schema.LateGraph) -> str:
    """A graph that was new after the warm-up, in words."""
    cause = f": {recompilation(record['cause'])}" if record["cause"] else ""
    place = "after the warm-up" if record["phase"] == AFTER else f"of {record['phase']}"
    return f"{where(record)}: a new graph in step {record['step']:,} {place}{cause}"


def capture(record: schema.Capture) -> str:
    """An HPU graph: what was captured and why, how often it was replayed, and what it holds."""
    tensors = ", ".join(text for text in record["inputs"].values() if "[" in text)
    what = f"{record['owner'] or 'a capture by hand'}({tensors})" if tensors else record["owner"] or "a capture by hand"
    why = f"; {'; '.join(record['differs'])}" if record["differs"] else ""
    phase = f", in phase {record['phase']}" if record["phase"] != WARM_UP else ""
    return (
        f"{what}, {plural(record['operators'], 'operator')}, captured in {record['ms']:,.1f} ms{phase}, replayed "
        f"{plural(record['replays'], 'time')}, holds {size(record['bytes'])}{why}"
    )


def captures(document: Document) -> str:
    """The HPU graphs of a process in one sentence."""
    rows, later = document["captures"], document["captures_later"]
    total = len(rows) + document["captures_more"]
    after = f", {len(later):,} of them after the warm-up" if later else ""
    return (
        f"{total:,} captured{after}, {plural(sum(r['replays'] for r in rows), 'replay')}, "
        f"{size(sum(r['bytes'] for r in rows))} held"
    )


def check(record: schema.Check) -> str:
    """A replay that differs from the plain call, or that was not checked, in words."""
    op = f"{record['op']}: " if record["op"] else ""
    return f"{record['owner'] or 'a capture by hand'}: {op}{record['text']} ({plural(record['count'], 'replay')})"


def checks(document: Document) -> str:
    """The check of HPU graphs in one sentence; empty: there was none."""
    if not document["graphs_checked"] and not document["graphs_unchecked"]:
        return ""
    different = sum(r["count"] for r in document["graph_differences"])
    unchecked = sum(r["count"] for r in document["graphs_unchecked"])
    left = f", {unchecked:,} not checked" if unchecked else ""
    done, graphs = document["graphs_compared"]
    share = f"; {done:,} of {plural(graphs, 'graph')} checked ({done / graphs:.0%})" if graphs else ""
    return f"{plural(document['graphs_checked'], 'replay')}, {different:,} different{left}{share}"


def padding(document: Document) -> list[str]:
    """Of functions whose HPU graphs differ in one length alone: to which lengths to pad, and what that saves."""
    return [
        f"{where(row)}: {row['owner'] or 'a capture by hand'}: pad to {plural(len(lengths), 'length')} "
        f"({', '.join(map(str, lengths))}): {number} graphs become {len(lengths)}"
        for row, number, lengths in paddings(document["captures"])
    ]


def collective(record: schema.Collective) -> str:
    """The time and data of a line's collectives, in words."""
    data = f"{times(record, record['op'])}, {size(record['bytes'])}"
    return f"{data}, the device waited {wait(record['wait_ns'])}"
