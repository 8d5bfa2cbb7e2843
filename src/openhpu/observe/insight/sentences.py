"""What the report says of a run's documents: a sentence, or part of one, for each kind of record.

The summary, the page, the advice and the log show the same sentences.
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from openhpu.observe.differences import BY_KIND, DIFFERENCES
from openhpu.observe.insight import schema
from openhpu.observe.insight.captures import paddings
from openhpu.observe.insight.phases import AFTER, WARM_UP
from openhpu.observe.insight.schema import Document

_MEMORY_GIB = {"Gaudi 2": 96, "Gaudi 3": 128}

Record = Mapping[str, Any]  # a row of any part


def title(document: Document) -> str:
    """Which process of the run it is."""
    process = document["process"]
    return f"rank {process['rank']}" if process["rank"] is not None else f"process {process['pid']}"


def empty_document(document: Document) -> str:
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


def milliseconds(ns: int) -> str:
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


def bound_of_steps(steps: schema.Steps) -> str:
    """Which side the steps wait for, in words."""
    share = steps["device_bound_share"]
    if share >= 0.5:
        return f"device-bound in {share:.0%} of the time"
    return f"host-bound in {1 - share:.0%} of the time"


def graphs_by_line(graphs: list[schema.SeenGraph]) -> list[tuple[str, str, int]]:
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


def unfinished_compilations(graphs: schema.Graphs) -> str:
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


def recompilation_at_line(record: schema.Recompilation) -> str:
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


def waits_of_this_device(rows: list[schema.KindOfWait]) -> list[str]:
    """Waits that a Gaudi does not have, a line for each kind."""
    words = {"first_sight": "at the first call of an operator", "queue": "for room in the queue"}
    return [
        f"{plural(sum(r['count'] for r in found), 'wait')} {text}, {milliseconds(sum(r['wait_ns'] for r in found))}"
        for kind, text in words.items()
        if (found := [r for r in rows if r["kind"] == kind])
    ]


def wait_at_line(record: schema.Wait) -> str:
    """An operator, and how often and for how long the host waited in it."""
    return f"{times(record, record['op'])}, waited {milliseconds(record['wait_ns'])}"


def difference(record: schema.Difference) -> str:
    """What a script does that a Gaudi refuses or computes otherwise, in words."""
    row = BY_KIND[record["kind"]]
    return f"{row.what}; on a Gaudi: {row.gaudi}"


def user_operator(record: schema.UserOperator) -> str:
    """A user's operator with its guid and its kernel, in words."""
    lock = ", which takes Python's lock in each call, also in graphs" if record["python"] else ""
    name = f"{record['schema']} ({record['guid']})"
    return f"{name}: {plural(record['calls'], 'call')}, {record['kernel']}{lock}"


def needs_on_a_gaudi(document: Document) -> list[str]:
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


def devices_too_small(document: Document) -> list[str]:
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


def unended_process(document: Document) -> str:
    """What a document says that was not written at the process's end, in words."""
    if document["complete"]:
        return ""
    if document.get("running"):
        return "; it is still running"
    return "; the process was killed, and the last moments before that are missing"


def late_graph(record: schema.LateGraph) -> str:
    """A graph that was new after the warm-up, in words."""
    cause = f": {cause_of_late_graph(record)}" if record["cause"] else ""
    place = "after the warm-up" if record["phase"] == AFTER else f"of {record['phase']}"
    return f"{where(record)}: a new graph in step {record['step']:,} {place}{cause}"


def cause_of_late_graph(record: schema.LateGraph) -> str:
    """What differs from an earlier graph, in words."""
    return recompilation(record["cause"]) if record["cause"] else "a new graph"


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
    return f"{data}, the device waited {milliseconds(record['wait_ns'])}"
