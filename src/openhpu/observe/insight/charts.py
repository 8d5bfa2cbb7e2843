"""Drawings of the page, as SVG that stretches to the page's width; all text beside them is HTML."""

from collections.abc import Sequence
from itertools import pairwise

from openhpu.observe.insight.schema import Document
from openhpu.observe.insight.sentences import size

_WIDTH = 1000
_STEPS_IN_DETAIL = 8


def timeline(document: Document) -> str:
    """Lanes of host, device and compiler over the whole run, and over its last steps."""
    steps = document["timeline"]["steps_us"]
    seconds = document["process"]["seconds"] or 0.0
    whole = _lanes(document, 0, max(1, round(seconds * 1e6)), "The whole run")
    if len(steps) <= _STEPS_IN_DETAIL:
        return whole
    return whole + _lanes(document, steps[-_STEPS_IN_DETAIL - 1], steps[-1], f"The last {_STEPS_IN_DETAIL} steps")


def _lanes(document: Document, begin: int, end: int, name: str) -> str:
    found = document["timeline"]
    ends = found["steps_us"]
    steps = [(a, b, "a" if i % 2 else "b") for i, (a, b) in enumerate(pairwise(ends))]
    lanes = [
        ("Host: steps of the script", steps),
        ("Device: busy", [(a, b, "d") for a, b in found["device_us"]]),
        ("Compiler", [(a, b, "c") for a, b, _ in found["compilations_us"]]),
    ]
    parts = [f"<h3>{name}</h3>"]
    parts += [_lane(title, boxes, begin, end) for title, boxes in lanes if boxes]
    parts.append(_axis(f"{begin / 1e6:.3f} s", f"{end / 1e6:.3f} s"))
    return f'<figure class="lanes">{"".join(parts)}</figure>'


def lanes(rows: list[tuple[str, list[tuple[float, float]]]]) -> str:
    """Lanes with names, of spans in microseconds from zero on."""
    end = max((b for _, spans in rows for _, b in spans), default=0.0)
    if not end:
        return ""
    parts = [_lane(title, [(a, b, "ab"[k % 2]) for k, (a, b) in enumerate(spans)], 0, end) for title, spans in rows]
    return f'<figure class="lanes">{"".join(parts)}{_axis("0", f"{end / 1e3:,.2f} ms")}</figure>'


def _lane(title: str, boxes: Sequence[tuple[float, float, str]], begin: float, end: float) -> str:
    shown = [(max(a, begin), min(b, end), kind) for a, b, kind in boxes if b > begin and a < end]
    one = _WIDTH / (end - begin)
    rectangles = "".join(
        f'<rect class="{kind}" x="{(a - begin) * one:.2f}" y="0" width="{max((b - a) * one, 0.5):.2f}" height="24"/>'
        for a, b, kind in shown
    )
    covered = sum(b - a for a, b, _ in shown) / (end - begin)
    return (
        f"<figcaption>{title} <small>({min(covered, 1):.0%} of the time)</small></figcaption>"
        f'<svg viewBox="0 0 {_WIDTH} 24" preserveAspectRatio="none" role="img" aria-label="{title}">'
        f'<rect class="ground" x="0" y="0" width="{_WIDTH}" height="24"/>{rectangles}</svg>'
    )


def memory(document: Document) -> str:
    """Memory in use over time."""
    points = document["memory"]["over_time"]
    peak = document["memory"]["peak_bytes"]
    if len(points) < 2 or not peak:
        return "<p>Too few measurements to draw.</p>"
    begin = points[0][0]
    end = max(points[-1][0], points[0][0] + 1)
    path: list[str] = []
    height = 120
    for time, used in points:
        x, y = _WIDTH * (time - begin) / (end - begin), height - height * used / peak
        path.append(f"H{x:.1f}V{y:.1f}" if path else f"M{x:.1f} {height}V{y:.1f}")
    return (
        f'<figure class="memory"><figcaption>{size(peak)} at the top</figcaption>'
        f'<svg viewBox="0 0 {_WIDTH} {height}" preserveAspectRatio="none" role="img" aria-label="Memory in use">'
        f'<rect class="ground" x="0" y="0" width="{_WIDTH}" height="{height}"/>'
        f'<path class="m" d="{"".join(path)}V{height}Z"/></svg>'
        f"{_axis(f'{begin / 1e6:.3f} s', f'{end / 1e6:.3f} s')}</figure>"
    )


def _axis(left: str, right: str) -> str:
    return f'<div class="axis"><span>{left}</span><span>{right}</span></div>'
