"""The text of a replay: tables by family and operator, candidates for the table of differences, and counts."""

import math
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from openhpu_record.reading import Recording
from openhpu_record.replay.comparing import DIFFERENT, FOUND, OUTCOMES, REFUSED_HERE, REFUSED_THERE, UNKNOWN, known

_MOST_ROWS = 40
_WIDTH = 110  # of an explanation
Row = dict[str, Any]  # of running.replayed


def differs(rows: list[Row]) -> bool:
    """Whether a call differs."""
    return any(row["outcome"] in FOUND for row in rows)


def text(path: Path, found: dict[str, Any], beside: Path | None = None) -> str:
    """What a user reads."""
    rows: list[Row] = found["rows"]
    with Recording(path) as recording:
        manifest = recording.manifest
        counts = {event.get("mode", ""): event for event in recording.events("facts")}
        steps = list(recording.events("step"))
        passes = list(recording.events("second_pass"))
    said = manifest.get("environment", {})
    name = said.get("name") or said.get("device", "?")
    lines = [
        f"{path.name}: {manifest.get('what', '?')} of {name}, torch {said.get('torch', '?')}, "
        f"depth: {manifest.get('depth', '?')}{_ended(manifest)}",
        f"{len(rows)} calls in {sum(found['seconds'].values()):.1f} s",
        *_families(rows),
        *_operators(rows),
        *_candidates(rows),
        *_counts(counts, found["facts"], beside),
        *(_step(one) for one in steps if one.get("sampled")),
        *(f"step {one['step']}: {one['text']}" for one in passes),
    ]
    return "\n".join(lines)


def _step(step: dict[str, Any]) -> str:
    """What a sampled step cost."""
    own = step.get("recorder_seconds", 0.0)
    return f"step {step['number']}: {step['seconds']:.3g} s, of which {own:.3g} s are the recorder's ({step['depth']})"


def _ended(manifest: dict[str, Any]) -> str:
    why = manifest.get("end", {}).get("why", "")
    return f"; it ended early: {why}" if why else ""


def _families(rows: list[Row]) -> list[str]:
    """How many calls of each family came out in which way."""
    table: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        table[row["family"]][row["outcome"]] += 1
    used = [one for one in OUTCOMES if any(counts[one] for counts in table.values())]
    width = max([len(family) for family in table], default=6)
    head = f"{'family':<{width}} " + " ".join(f"{one:>{max(len(one), 6)}}" for one in used)
    return [head] + [
        f"{family:<{width}} " + " ".join(f"{counts[one] or '':>{max(len(one), 6)}}" for one in used)
        for family, counts in table.items()
    ]


def _place(row: Row) -> str:
    values = f", {row['values']}" if row["values"] else ""
    line = f", {row['line']}" if row["line"] else ""
    return f"call {row['id']} ({row['mode']}, {row['dtype']}{values}{line})"


def _operators(rows: list[Row]) -> list[str]:
    """Of each operator that differs: the first call that does, and the largest difference."""
    table: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["outcome"] == DIFFERENT:
            table[row["op"]].append(row)
    lines = []
    for op, those in table.items():
        largest = max(those, key=lambda row: row["largest"])
        size = "not finite" if math.isinf(largest["largest"]) else f"{largest['largest']:.3g}"
        lines.append(f"{op}: {len(those)} calls differ")
        lines.append(f"  first:   {_place(those[0])}: {those[0]['how'][:_WIDTH]}")
        lines.append(f"  largest: {_place(largest)}: {size} of the larger number")
    unknown = Counter(row["op"] for row in rows if row["outcome"] == UNKNOWN)
    lines += [f"{op}: unknown, {number} calls" for op, number in unknown.items()]
    return _shortened(lines, "operators that differ:")


def _candidates(rows: list[Row]) -> list[str]:
    """Kinds of differences that calls show: what the table of differences has, and what it may lack."""
    groups: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row["outcome"] in (REFUSED_THERE, REFUSED_HERE) or (row["outcome"] == DIFFERENT and row["kind"]):
            what = row["op"] if row["kind"] in ("refused there", "refused here") else ""
            groups[row["kind"], what].append(row)
    lines = []
    for (kind, op), those in groups.items():
        table = "in the table" if known(kind) else "candidate"
        how = those[0]["how"][:_WIDTH]
        lines.append(f"  {kind}{' ' + op if op else ''} ({table}): {len(those)} calls, first {_place(those[0])}: {how}")
    return _shortened(lines, "where one device permits what the other does not, or has another rule:")


def _counts(there: dict[str, Any], here: dict[str, Any], beside: Path | None) -> list[str]:
    """Memory and graphs side by side."""
    if beside is not None:
        with Recording(beside) as other:
            here = {event.get("mode", ""): event for event in other.events("facts")}
    lines = []
    for mode, facts in there.items():
        a, b = _flat(facts), _flat(here.get(mode, {}))
        lines += [f"  {mode} {key}: {a.get(key, '-')} there, {b.get(key, '-')} here" for key in sorted({*a, *b})]
    return _shortened(lines, "memory and graphs:")


def _flat(facts: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for group in ("memory", "metrics"):
        for name, value in (facts.get(group) or {}).items():
            if isinstance(value, dict):
                found |= {f"{name} {key}": one for key, one in value.items() if isinstance(one, (int, float))}
            elif isinstance(value, (int, float)):
                found[f"{group} {name}"] = value
    return found


def _shortened(lines: list[str], title: str) -> list[str]:
    if not lines:
        return []
    more = [f"  ... and {len(lines) - _MOST_ROWS} lines more; --json has all"] if len(lines) > _MOST_ROWS else []
    return [title, *lines[:_MOST_ROWS], *more]
