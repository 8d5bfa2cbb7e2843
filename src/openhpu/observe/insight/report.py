"""A document as one HTML page: no network, no script, readable on a phone. Its form is `page.html.j2`."""

import functools
import operator
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from openhpu.observe.insight import charts, observed
from openhpu.observe.insight.advice import advise
from openhpu.observe.insight.schema import Document


def page(document: Document) -> str:
    """The HTML text. Names from the script are escaped."""
    template = environment(Path(__file__).parent).get_template("page.html.j2")
    tools = {"observed": observed, "charts": charts, "advise": advise, "facts": _facts, "rows": _rows}
    return template.render(document, document=document, datetime=datetime, **tools)


@functools.cache
def environment(folder: Path) -> Environment:
    """The templates of pages in a folder."""
    found = Environment(loader=FileSystemLoader(folder), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    found.filters["bytes"] = observed.size
    found.filters["shown"] = lambda value: f"{value:,}" if isinstance(value, int) else value
    found.globals["number"] = lambda value: Markup(' class="n"' if isinstance(value, int) else "")
    found.globals["plural"] = observed.plural
    return found


# What tables show of a record by these names; by others it is the record's own.
_CELLS: dict[str, Callable[[Any], object]] = {
    "where": observed.where,
    "change": observed.recompilation,
    "check": observed.check,
    "difference": observed.difference,
    "why": lambda r: observed.recompilation(r["cause"]) if r["cause"] else "a new graph",
    "owner": lambda r: r["owner"] or "by hand",
    "inputs": lambda r: ", ".join(r["inputs"].values()),
    "differs": lambda r: "; ".join(r["differs"]),
    "ms": lambda r: f"{r['ms']:,.1f} ms",
    "bytes": lambda r: observed.size(r["bytes"]),
    "wait_ns": lambda r: observed.wait(r["wait_ns"]),
    "made": lambda r: "from disk" if r["from_disk"] else f"{r['ms'] / 1e3:.1f} s",
    "ops": lambda r: Markup("<details><summary>{}</summary>{}</details>").format(
        observed.plural(r["operators"], "operator"), ", ".join(f"{name} x {n}" for name, n in r["ops"].items())
    ),
}


def _rows(records: list[dict[str, Any]], columns: str) -> list[list[object]]:
    """Of a table with these columns."""
    cells = [_CELLS.get(name, operator.itemgetter(name)) for name in columns.split()]
    return [[cell(record) for cell in cells] for record in records]


def _facts(document: Document) -> list[tuple[str, str]]:
    steps, memory, graphs = document["steps"], document["memory"], document["graphs"]
    facts = [("Run time", f"{document['process']['seconds']:.1f} s"), ("Steps", f"{steps['count']:,}")]
    if "median_ms" in steps:
        facts += [
            ("Median step", f"{steps['median_ms']:.2f} ms"),
            ("Fastest, slowest", f"{steps['fastest_ms']:.2f}, {steps['slowest_ms']:.2f} ms"),
            ("Steps are", observed.bound(steps)),
            ("Device busy, host waiting", f"{steps['device_busy_share']:.0%}, {steps['host_waiting_share']:.0%}"),
        ]
    if document["process"]["mode"] == "lazy":
        facts.append(("Graphs", f"{graphs['distinct']:,} different, {graphs['recorded']:,} run"))
        facts.append(("Recompilations", f"{sum(r['count'] for r in document['recompilations']):,}"))
    return [
        *facts,
        ("CPU fallbacks", f"{sum(r['count'] for r in document['fallbacks']):,}"),
        ("Blocking reads", f"{sum(r['count'] for r in document['blocking_reads']):,}"),
        ("Waits for sizes", f"{sum(r['count'] for r in document['shape_waits']):,}"),
        ("Memory peak", observed.size(memory["peak_bytes"])),
    ]
