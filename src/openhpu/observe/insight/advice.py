"""Advice about a run; each piece has its evidence. The texts are in advice.toml."""

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

from openhpu.observe.insight import sentences
from openhpu.observe.insight.schema import BlockingRead, Document, KindOfWait
from openhpu.observe.insight.sentences import plural, size, where
from openhpu.settings import tables

_MANY_GRAPHS = 10
_MUCH_MEMORY = 16 << 20  # a peak below it is small on every device
_MOST_EVIDENCE = 8


class Text(NamedTuple):
    """A row of advice.toml. `text` has places for facts, as str.format fills them."""

    name: str
    title: str
    text: str


_TEXTS = {row.name: row for row in tables.beside(__file__, "advice.toml", Text)}

# The name of a text, the evidence (none: it does not apply), and what the text has places for.
Found = Iterator[tuple[Any, ...]]


_Wait = TypeVar("_Wait", BlockingRead, KindOfWait)


class Advice(NamedTuple):
    """`evidence`: the facts of this run, a line each."""

    title: str
    text: str
    evidence: tuple[str, ...]


def advise(document: Document) -> list[Advice]:
    """The advice that a run gives rise to, the most pressing first."""
    advice = []
    for rule in (_fallbacks, _waits, _recompilations, _graphs, _kernels, _memory, _bound):
        for name, evidence, *facts in rule(document):
            if evidence:
                text = _TEXTS.get(name, Text(name, title=name, text=""))
                advice.append(Advice(text.title, text.text.format(*facts), tuple(evidence[:_MOST_EVIDENCE])))
    return advice


def _fallbacks(document: Document) -> Found:
    records = document["fallbacks"]
    complex_numbers = [r for r in records if r["dtype"] in ("ComplexDouble", "ComplexFloat", "ComplexHalf")]
    for name, found in (("complex", complex_numbers), ("fallback", [r for r in records if r not in complex_numbers])):
        yield name, [sentences.times(r, sentences.fallback(r)) for r in found]


def _often(document: Document, waits: list[_Wait]) -> list[_Wait]:
    """Those that came in at least every other step."""
    steps = document["steps"]["count"]
    return [r for r in waits if steps >= 2 and r["count"] >= steps / 2]


def _waits(document: Document) -> Found:
    steps = plural(document["steps"]["count"], "step")
    lines = [
        f"{where(r)}: {r['op']} {plural(r['count'], 'time')} in {steps}, {size(r['bytes'])} in all, waited "
        f"{sentences.milliseconds(r['wait_ns'])}"
        for r in _often(document, document["blocking_reads"])
    ]
    yield "read", lines
    yield "shape", [sentences.wait_at_line(r) for r in _often(document, document["shape_waits"])]


def _recompilations(document: Document) -> Found:
    by_cause: dict[str, list[str]] = {}
    for record in document["recompilations"]:
        by_cause.setdefault(record["cause"], []).append(sentences.recompilation_at_line(record))
    for cause, evidence in by_cause.items():
        name = f"recompilation by {cause}"
        yield name if name in _TEXTS else f"Recompilations: {cause}", evidence


def _graphs(document: Document) -> Found:
    graphs = document["graphs"]
    if len(graphs["seen_once"]) >= _MANY_GRAPHS:
        lines = [
            f"{line}: {plural(number, 'graph')} from here on, of {operators}"
            for line, operators, number in sentences.graphs_by_line(graphs["seen_once"])
        ]
        yield "once", lines, plural(len(graphs["seen_once"]), "graph"), graphs["distinct"]
    yield "padding", sentences.padding(document)


def _kernels(document: Document) -> Found:
    yield "kernel", [sentences.user_operator(r) for r in document["user_operators"] if r["python"]]


def _memory(document: Document) -> Found:
    memory = document["memory"]
    growth, peak = memory["peak_growth_bytes"], memory["peak_bytes"]
    if memory["peak_line"] and 2 * growth >= peak >= _MUCH_MEMORY:
        yield "memory", [f"{where(memory, 'peak_')}: {size(growth)} of the peak of {size(peak)}"]


def _bound(document: Document) -> Found:
    steps = document["steps"]
    if steps.get("host_bound_share", 0) > 0.5:
        line = (
            f"{steps['host_bound_share']:.0%} of the steps' time is in steps where the host worked longer than the "
            f"device; the device was busy for {steps['device_busy_share']:.0%} of it"
        )
        yield "host", [line]
