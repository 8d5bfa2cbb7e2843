"""A document as one HTML page: no network, no script, readable on a phone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape

from openhpu.insight import charts
from openhpu.insight.advice import advise
from openhpu.insight.document import (
    Document,
    bound,
    by_line,
    plural,
    recompilation,
    size,
    title,
    unfinished,
    wait,
    where,
)

_STYLE = """
:root { color-scheme: light dark; --ground: #fff; --text: #1b1f24; --faint: #667; --line: #d5d9e0; --soft: #f3f5f8;
  --a: #4878b8; --b: #7ba3d6; --d: #2f8f6b; --c: #c2803a; --m: #8a6bbf; --warn: #b3412e; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171b; --text: #e3e6ea; --faint: #9aa3ae; --line: #343b44;
  --soft: #1d2228; --a: #6f9fe0; --b: #4a74ab; --d: #4cba8f; --c: #d79a5a; --m: #a78be0; --warn: #e8806c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1rem; background: var(--ground); color: var(--text);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: .5rem 0; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; } h3 { font-size: 1rem; }
p { margin: .4rem 0; } small, .faint { color: var(--faint); } code { font-size: .9em; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(10.5rem, 1fr)); gap: .6rem; padding: 0;
  margin: 1rem 0; }
.facts div { background: var(--soft); border-radius: .5rem; padding: .6rem .8rem; }
.facts dt { color: var(--faint); font-size: .85rem; } .facts dd { margin: 0; font-weight: 600; }
.advice { border-left: .25rem solid var(--warn); background: var(--soft); padding: .5rem .9rem; margin: .8rem 0; }
.advice h3 { margin: .2rem 0; } .advice ul { margin: .3rem 0; padding-left: 1.2rem; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; padding: .35rem .6rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
figure { margin: .5rem 0 1.5rem; } figcaption { font-size: .9rem; margin-top: .4rem; }
svg { display: block; width: 100%; } .lanes svg { height: 1.5rem; } .memory svg { height: 8rem; }
.axis { display: flex; justify-content: space-between; color: var(--faint); font-size: .85rem; }
.ground { fill: var(--soft); } .a { fill: var(--a); } .b { fill: var(--b); } .d { fill: var(--d); }
.c { fill: var(--c); }
.m { fill: var(--m); fill-opacity: .6; stroke: var(--m); }
details { margin: .3rem 0; } summary { cursor: pointer; }
@media (max-width: 40rem) {
  body { padding: .7rem; }
  thead { position: absolute; left: -999rem; }
  tr { display: block; border-bottom: 1px solid var(--line); padding: .4rem 0; }
  td, td.n { display: flex; justify-content: space-between; gap: 1rem; border: 0; padding: .1rem 0; text-align: right; }
  td::before { content: attr(data-label); color: var(--faint); text-align: left; flex: none; }
}
"""

Row = Sequence[object]


def page(document: Document) -> str:
    """The HTML text."""
    process = document["process"]
    name = escape(process["command"])
    if process["pid"] is None:
        content = "<p>No hpu device was opened: the script did not put a tensor on hpu.</p>"
    else:
        content = "".join(_sections(document))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{name} on hpu</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{name}</h1>\n{content}\n</body>\n</html>\n"
    )


def _sections(document: Document) -> Iterable[str]:
    process = document["process"]
    started = datetime.fromtimestamp(process["started"]).isoformat(" ", "seconds")
    ended = "" if document["complete"] else " The process was killed: this is what was seen until shortly before."
    yield (
        f'<p class="faint">{escape(title(document))}, {process["mode"]} mode, {escape(process["generation"])}, '
        f"started {started}, OpenHPU {process['openhpu']}, PyTorch {escape(process['torch'])}.{ended}</p>\n"
    )
    yield _facts(document)
    yield _advice(document)
    yield f"<h2>Timeline</h2>{charts.timeline(document)}\n"
    yield _recompilations(document)
    yield _places(document)
    yield _collectives(document)
    yield f"<h2>Memory</h2>{_memory(document)}{charts.memory(document)}\n"
    if process["mode"] == "lazy":
        yield _recipes(document)
    yield _errors(document)
    yield _counters(document)


def _facts(document: Document) -> str:
    steps, memory, graphs = document["steps"], document["memory"], document["graphs"]
    facts = [("Run time", f"{document['process']['seconds']:.1f} s"), ("Steps", f"{steps['count']:,}")]
    if "median_ms" in steps:
        facts += [
            ("Median step", f"{steps['median_ms']:.2f} ms"),
            ("Fastest, slowest", f"{steps['fastest_ms']:.2f}, {steps['slowest_ms']:.2f} ms"),
            ("Steps are", bound(steps)),
            ("Device busy, host waiting", f"{steps['device_busy_share']:.0%}, {steps['host_waiting_share']:.0%}"),
        ]
    if document["process"]["mode"] == "lazy":
        facts.append(("Graphs", f"{graphs['distinct']:,} different, {graphs['recorded']:,} run"))
        facts.append(("Recompilations", f"{sum(r['count'] for r in document['recompilations']):,}"))
    facts += [
        ("CPU fallbacks", f"{sum(r['count'] for r in document['fallbacks']):,}"),
        ("Blocking reads", f"{sum(r['count'] for r in document['blocking_reads']):,}"),
        ("Memory peak", size(memory["peak_bytes"])),
    ]
    return '<dl class="facts">' + "".join(f"<div><dt>{k}</dt><dd>{v}</dd></div>" for k, v in facts) + "</dl>\n"


def _advice(document: Document) -> str:
    found = advise(document)
    if not found:
        return "<h2>Advice</h2><p>None: nothing was seen that a Gaudi would be slow at.</p>\n"
    boxes = []
    for advice in found:
        evidence = "".join(f"<li><code>{escape(line)}</code></li>" for line in advice.evidence)
        boxes.append(
            f'<div class="advice"><h3>{escape(advice.title)}</h3><p>{escape(advice.text)}</p><ul>{evidence}</ul></div>'
        )
    return f"<h2>Advice</h2>{''.join(boxes)}\n"


def _recompilations(document: Document) -> str:
    if document["process"]["mode"] != "lazy":
        return ""
    rows = [(where(r), r["cause"], recompilation(r), r["count"]) for r in document["recompilations"]]
    return "<h2>Recompilations</h2>" + _table(("Line", "Cause", "What differed", "Times"), rows)


def _places(document: Document) -> str:
    fallbacks = [(where(r), r["op"], r["dtype"], r["count"]) for r in document["fallbacks"]]
    reads = [(where(r), r["op"], size(r["bytes"]), r["count"], wait(r["wait_ns"])) for r in document["blocking_reads"]]
    return (
        "<h2>CPU fallbacks</h2>"
        + _table(("Line", "Operator", "Dtype", "Times"), fallbacks)
        + "<h2>Blocking reads</h2>"
        + _table(("Line", "Operation", "Bytes", "Times", "Waited"), reads)
    )


def _collectives(document: Document) -> str:
    rows = [(where(r), r["op"], size(r["bytes"]), r["count"], wait(r["wait_ns"])) for r in document["collectives"]]
    return "<h2>Collectives</h2>" + _table(("Line", "Operator", "Bytes", "Times", "Waited"), rows) if rows else ""


def _memory(document: Document) -> str:
    memory = document["memory"]
    text = f"Peak {size(memory['peak_bytes'])} of {size(memory['limit_bytes'])}."
    if memory["peak_line"]:
        text += f" {size(memory['peak_growth_bytes'])} of it came at <code>{escape(where(memory, 'peak_'))}</code>."
    return f"<p>{text}</p>"


def _recipes(document: Document) -> str:
    rows, graphs = [], document["graphs"]
    for recipe in document["recipes"]:
        operators = ", ".join(f"{name} x {number}" for name, number in recipe["ops"].items())
        shown = f"<details><summary>{plural(recipe['operators'], 'operator')}</summary>{escape(operators)}</details>"
        made = "from disk" if recipe["from_disk"] else f"{recipe['ms'] / 1e3:.1f} s"
        rows.append((recipe["name"], recipe["runs"], made, _Html(shown)))
    once = by_line(graphs["seen_once"])
    return (
        f"<h2>Recipes</h2><p>{graphs['as_recipes']:,} graphs ran as recipes, {graphs['node_by_node']:,} operator by "
        f"operator, {graphs['cut']:,} were pieces, run to learn what operators return. {unfinished(graphs)}</p>"
        + _table(("Recipe", "Runs", "Compiled in", "Operators"), rows)
        + "<h2>Graphs seen only once</h2><p>Here they run operator by operator; a Gaudi compiles each of them.</p>"
        + _table(("First line", "Size", "Graphs"), once)
    )


def _errors(document: Document) -> str:
    rows = [(where(e), e["op"], e["message"]) for e in document["errors"]]
    return "<h2>Errors</h2>" + _table(("Line", "Operator", "Message"), rows) if rows else ""


def _counters(document: Document) -> str:
    rows = [(name, value) for name, value in document["counters"].items() if value]
    return f"<details><summary>Counters</summary>{_table(('Counter', 'Value'), rows)}</details>\n"


class _Html(str):
    """A cell that is HTML already."""


def _table(head: tuple[str, ...], rows: Sequence[Row]) -> str:
    if not rows:
        return "<p>None.</p>\n"
    kinds = [' class="n"' if isinstance(cell, int) else "" for cell in rows[0]]
    titles = "".join(f"<th{kind}>{name}</th>" for name, kind in zip(head, kinds, strict=True))
    body = []
    for row in rows:
        cells = [f'<td{k} data-label="{h}">{_cell(c)}</td>' for h, k, c in zip(head, kinds, row, strict=True)]
        body.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{''.join(body)}</tbody></table>\n"


def _cell(value: object) -> str:
    if isinstance(value, _Html):
        return value
    return f"{value:,}" if isinstance(value, int) else escape(str(value))
