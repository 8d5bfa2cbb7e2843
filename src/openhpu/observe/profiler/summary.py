"""`openhpu trace FILE`: a summary of a trace, as text."""

from collections import defaultdict
from pathlib import Path
from typing import Any

from openhpu.observe.profiler.reading import Event, TraceError, commands, read, spans, union_us

_ROWS = 15
_GAPS = 5
_WAITS = ("hpuSynchronize", "hpuWaitForCompiler", "hpuFallback")


def of_file(path: Path) -> str:
    """The summary of the trace in this file. Raises TraceError where it is none."""
    document = read(path)
    try:
        return summary(document)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise TraceError(f"an event of {path} is not one of a trace: {error!r}") from error


def summary(document: dict[str, Any]) -> str:
    """Each device's busy time and its longest gaps, operators by time, and the waits of the host."""
    found = commands(document)
    if not found:
        return "The trace has no event of a device: nothing ran on hpu while it was recorded."
    lines: list[str] = []
    for device in sorted({e["pid"] for e in found}):
        lines += _device(device, [e for e in found if e["pid"] == device])
    lines += ["", *_operators(document, found)]
    lines += _host(document)
    if dropped := document.get("hpu_dropped"):
        lines += ["", f"{dropped:,} events had no room: the trace is not complete"]
    return "\n".join(lines)


def _device(device: int, found: list[Event]) -> list[str]:
    begin = min(e["ts"] for e in found)
    end = max(e["ts"] + e["dur"] for e in found)
    busy = union_us(found)
    whole = max(end - begin, 1e-9)
    lines = [f"HPU {device}: {len(found):,} commands in {_ms(whole)}, busy {_ms(busy)} ({busy / whole:.0%})"]
    gaps = []
    latest = found[0]["ts"]
    after = ""
    for event in found:
        if event["ts"] > latest:
            gaps.append((event["ts"] - latest, latest - begin, after, event["name"]))
        if event["ts"] + event["dur"] >= latest:
            latest = event["ts"] + event["dur"]
            after = event["name"]
    for length, at, before, name in sorted(gaps, reverse=True)[:_GAPS]:
        lines.append(f"  idle {_ms(length):>12} at {_ms(at):>12}, between {before} and {name}")
    return lines


def _operators(document: dict[str, Any], found: list[Event]) -> list[str]:
    """Parts of recipes and graphs count instead of these where there are any."""
    parts = [e for e in spans(document) if e.get("cat") == "hpu_op"]
    times: dict[str, list[float]] = defaultdict(list)
    for event in [*found, *parts]:
        times[("  " if event.get("cat") == "hpu_op" else "") + event["name"]].append(event["dur"])
    rows = sorted(times.items(), key=lambda item: -sum(item[1]))
    lines = [f"{'time':>12} {'calls':>9} {'mean':>12}  on the device (indented: within graphs and recipes)"]
    for name, taken in rows[:_ROWS]:
        lines.append(f"{_ms(sum(taken)):>12} {len(taken):>9,} {_ms(sum(taken) / len(taken)):>12}  {name}")
    if len(rows) > _ROWS:
        rest = sum(sum(taken) for _, taken in rows[_ROWS:])
        lines.append(f"{_ms(rest):>12} {sum(len(t) for _, t in rows[_ROWS:]):>9,} {'':>12}  {len(rows) - _ROWS} others")
    return lines


def _host(document: dict[str, Any]) -> list[str]:
    waits: dict[str, list[float]] = defaultdict(list)
    for event in spans(document):
        if event["name"] in _WAITS or event["name"] in ("hpuFlush", "hpuCompile"):
            detail = event.get("args", {}).get("detail", "")
            waits[event["name"] + (f" ({detail})" if event["name"] == "hpuFallback" else "")].append(event["dur"])
    if not waits:
        return []
    lines = ["", f"{'time':>12} {'calls':>9} {'longest':>12}  on the host"]
    for name, taken in sorted(waits.items(), key=lambda item: -sum(item[1])):
        lines.append(f"{_ms(sum(taken)):>12} {len(taken):>9,} {_ms(max(taken)):>12}  {name}")
    return lines


def _ms(us: float) -> str:
    return f"{us / 1e3:,.3f} ms"
