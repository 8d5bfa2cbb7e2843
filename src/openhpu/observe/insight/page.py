"""A document as one HTML page: no network, no script, readable on a phone. Its form is `page.html.j2`."""

import functools
import operator
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from openhpu.observe.insight import charts, sentences
from openhpu.observe.insight.advice import advise
from openhpu.observe.insight.schema import Document


def text(document: Document) -> str:
    """The HTML text. Names from the script are escaped."""
    template = environment(Path(__file__).parent).get_template("page.html.j2")
    tools = {"sentences": sentences, "charts": charts, "advise": advise, "facts": _facts, "rows": _rows}
    return template.render(document, document=document, datetime=datetime, **tools)


@functools.cache
def environment(folder: Path) -> Environment:
    """The templates of pages in a folder."""
    found = Environment(loader=FileSystemLoader(folder), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    found.filters["bytes"] = sentences.size
    found.filters["shown"] = lambda value: f"{value:,}" if isinstance(value, int) else value
    found.globals["number"] = lambda value: Markup(' class="n"' if isinstance(value, int) else "")
    found.globals["plural"] = sentences.plural
    return found


# Columns that are made of a record: those with the name of a function are its sentence, those with the name of a field
# show the field in another form. Any other column is the field of its name.
_CELLS: dict[str, Callable[[Any], object]] = {
    "where": sentences.where,
    "recompilation": sentences.recompilation,
    "check": sentences.check,
    "difference": sentences.difference,
    "cause_of_late_graph": sentences.cause_of_late_graph,
    "owner": lambda r: r["owner"] or "by hand",
    "inputs": lambda r: ", ".join(r["inputs"].values()),
    "differs": lambda r: "; ".join(r["differs"]),
    "ms": lambda r: f"{r['ms']:,.1f} ms",
    "bytes": lambda r: sentences.size(r["bytes"]),
    "wait_ns": lambda r: sentences.milliseconds(r["wait_ns"]),
    "compiled_in": lambda r: "from disk" if r["from_disk"] else f"{r['ms'] / 1e3:.1f} s",
    "operators_by_name": lambda r: Markup("<details><summary>{}</summary>{}</details>").format(
        sentences.plural(r["operators"], "operator"), ", ".join(f"{name} x {n}" for name, n in r["ops"].items())
    ),
}


def _rows(records: list[dict[str, Any]], columns: Iterable[str]) -> list[list[object]]:
    """Of a table with these columns."""
    cells = [_CELLS.get(name, operator.itemgetter(name)) for name in columns]
    return [[cell(record) for cell in cells] for record in records]


def _facts(document: Document) -> list[tuple[str, str]]:
    steps, memory, graphs = document["steps"], document["memory"], document["graphs"]
    facts = [("Run time", f"{document['process']['seconds']:.1f} s"), ("Steps", f"{steps['count']:,}")]
    if "median_ms" in steps:
        facts += [
            ("Median step", f"{steps['median_ms']:.2f} ms"),
            ("Fastest, slowest", f"{steps['fastest_ms']:.2f}, {steps['slowest_ms']:.2f} ms"),
            ("Steps are", sentences.bound_of_steps(steps)),
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
        ("Memory peak", sentences.size(memory["peak_bytes"])),
    ]
