"""A document as one HTML page: no network, no script, readable on a phone. Its form is `page.html.j2`."""

import functools
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from openhpu.observe.insight import charts, observed
from openhpu.observe.insight.advice import advise
from openhpu.observe.insight.observed import Document


def page(document: Document) -> str:
    """The HTML text. Names from the script are escaped."""
    template = environment(Path(__file__).parent).get_template("page.html.j2")
    return template.render(document, **(_parts(document) if document["process"]["pid"] is not None else {}))


@functools.cache
def environment(folder: Path) -> Environment:
    """The templates of pages in a folder."""
    found = Environment(loader=FileSystemLoader(folder), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    found.filters["bytes"] = observed.size
    found.filters["shown"] = lambda value: f"{value:,}" if isinstance(value, int) else value
    found.globals["number"] = lambda value: Markup(' class="n"' if isinstance(value, int) else "")
    found.globals["plural"] = observed.plural
    return found


def _parts(document: Document) -> dict[str, Any]:
    """The parts of the page that are not in the document."""
    graphs, memory = document["graphs"], document["memory"]
    return {
        "title": observed.title(document),
        "started": datetime.fromtimestamp(document["process"]["started"]).isoformat(" ", "seconds"),
        "facts": _facts(document),
        "advice": advise(document),
        "timeline": Markup(charts.timeline(document)),
        "phase_words": observed.phases(document) if len(document["phases"]["phases"]) > 1 else [],
        "too_large": observed.too_large(document),
        "ended": observed.unended(document),
        "later": [
            (
                observed.where(r),
                r["phase"],
                r["step"],
                observed.recompilation(r["cause"]) if r["cause"] else "a new graph",
            )
            for r in document["phases"]["later"]
        ],
        "captured": observed.captures(document),
        "captures": [
            (
                observed.where(r),
                r["owner"] or "by hand",
                ", ".join(r["inputs"].values()),
                "; ".join(r["differs"]),
                r["phase"],
                f"{r['ms']:,.1f} ms",
                r["replays"],
                observed.size(r["bytes"]),
            )
            for r in document["captures"]
        ],
        "checked": observed.checks(document),
        "checks": [
            (observed.where(r), observed.check(r)) for r in document["graph_differences"] + document["graphs_unchecked"]
        ],
        "recompilations": [
            (observed.where(r), r["cause"], observed.recompilation(r), r["count"]) for r in document["recompilations"]
        ],
        "fallbacks": [(observed.where(r), r["op"], r["dtype"], r["count"]) for r in document["fallbacks"]],
        "indices": [(observed.where(r), r["op"], r["count"], r["padding"]) for r in document["indices_out_of_range"]],
        "kindnesses": [(observed.where(r), observed.kindness(r), r["count"]) for r in document["kindnesses"]],
        "needs": observed.needs(document),
        "reads": _waited(document["blocking_reads"]),
        "shapes": [
            (observed.where(r), r["op"], r["count"], observed.wait(r["wait_ns"])) for r in document["shape_waits"]
        ],
        "own": observed.own_waits(document["own_waits"]),
        "collectives": _waited(document["collectives"]),
        "peak_at": observed.where(memory, "peak_") if memory["peak_line"] else "",
        "memory_drawing": Markup(charts.memory(document)),
        "unfinished": observed.unfinished(graphs),
        "recipes": [_recipe(recipe) for recipe in document["recipes"]],
        "once": observed.by_line(graphs["seen_once"]),
        "errors": [(observed.where(e), e["op"], e["message"]) for e in document["errors"]],
        "section_lanes": [Markup(charts.lanes(section["lanes"])) for section in document["sections"]],
        "counters": [(name, value) for name, value in document["counters"].items() if value],
    }


def _waited(records: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    return [
        (observed.where(r), r["op"], observed.size(r["bytes"]), r["count"], observed.wait(r["wait_ns"]))
        for r in records
    ]


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


def _recipe(recipe: dict[str, Any]) -> tuple[object, ...]:
    operators = ", ".join(f"{name} x {number}" for name, number in recipe["ops"].items())
    shown = Markup("<details><summary>{}</summary>{}</details>").format(
        observed.plural(recipe["operators"], "operator"), operators
    )
    made = "from disk" if recipe["from_disk"] else f"{recipe['ms'] / 1e3:.1f} s"
    return recipe["name"], recipe["runs"], made, shown
