"""Advice about a run; each piece has its evidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from openhpu.observe.insight.observed import (
    Document,
    by_line,
    fallback,
    padding,
    plural,
    recompilation,
    size,
    times,
    wait,
    waited,
    where,
)

_MANY_GRAPHS = 10
_MUCH_MEMORY = 16 << 20  # a peak below it is small on every device


@dataclass(frozen=True)
class Advice:
    """`evidence`: the facts of this run, a line each."""

    title: str
    text: str
    evidence: tuple[str, ...]


def advise(document: Document) -> list[Advice]:
    """The advice that a run gives rise to, the most pressing first."""
    found = (_fallbacks, _reads, _shapes, _recompilations, _graphs, _paddings, _memory, _bound)
    return [advice for rule in found for advice in rule(document)]


def _fallbacks(document: Document) -> Iterator[Advice]:
    records = document["fallbacks"]
    complex_numbers = [r for r in records if r["dtype"] in ("ComplexDouble", "ComplexFloat", "ComplexHalf")]
    others = [r for r in records if r not in complex_numbers]
    if complex_numbers:
        yield Advice(
            "Use pairs of real numbers instead of complex numbers",
            "A Gaudi does not compute with them; such operators run on the host, which waits for the device first. "
            "torch.view_as_real gives the real numbers of a tensor without a copy.",
            _places(complex_numbers),
        )
    if others:
        yield Advice(
            "Replace operators that the device does not have, or move them out of the step",
            "They run on the host. The host waits for the device, copies operands to the host and results back. "
            "PT_HPU_PLACE_ON_CPU=none makes each an error, which finds them all.",
            _places(others),
        )


def _places(fallbacks: list[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(times(r, fallback(r)) for r in fallbacks[:8])


def _often(document: Document, name: str) -> list[dict[str, Any]]:
    """The records of that name that came in at least every other step."""
    steps = document["steps"]["count"]
    return [r for r in document[name] if steps >= 2 and r["count"] >= steps / 2]


def _reads(document: Document) -> Iterator[Advice]:
    steps = document["steps"]["count"]
    if often := _often(document, "blocking_reads"):
        yield Advice(
            "Read values less often",
            "item(), cpu(), tolist(), print and float() of a tensor make the host wait until the device has computed "
            "it, and end the graph in lazy mode. Sum logged values on the device and read the sum every so many steps.",
            tuple(
                f"{where(r)}: {r['op']} {plural(r['count'], 'time')} in {plural(steps, 'step')}, "
                f"{size(r['bytes'])} in all, waited {wait(r['wait_ns'])}"
                for r in often[:8]
            ),
        )


def _shapes(document: Document) -> Iterator[Advice]:
    if often := _often(document, "shape_waits"):
        yield Advice(
            "Keep sizes independent of values",
            "The host waits for the size of x[mask], nonzero, masked_select or unique, and each new size is a "
            "compilation of what follows. Keep all elements: torch.where, masked_fill, a product with the mask, "
            "ignore_index of a loss. Give repeat_interleave its output_size.",
            tuple(waited(r) for r in often[:8]),
        )


def _recompilations(document: Document) -> Iterator[Advice]:
    by_cause: dict[str, list[str]] = {}
    for record in document["recompilations"]:
        line = f"{where(record)}: {recompilation(record)} ({plural(record['count'], 'time')})"
        by_cause.setdefault(record["cause"], []).append(line)
    texts = {
        "size": (
            "Keep sizes the same from step to step",
            "Every new size is a compilation, which often takes minutes on a Gaudi. Drop or pad the last batch "
            "(DataLoader(drop_last=True)), pad sequences to a few lengths (const_shape_dataloader).",
        ),
        "stride": (
            "Keep memory formats the same from step to step",
            "The same operator got a tensor with other strides: call contiguous() or choose one memory format.",
        ),
        "dtype": ("Keep dtypes the same from step to step", "The same operator got another dtype."),
        "number": (
            "Numbers that change are learned as arguments",
            "A constant of the recipe has changed. From then on it is an argument of the recipe. This "
            "happens once for each such number and needs no change of the script.",
        ),
        "graph": (
            "Keep the operators of a step the same",
            "The same place runs other operators than before, or the same ones with another argument. Look for "
            "branches and arguments that depend on the step's number.",
        ),
        "memory": (
            "Keep the same tensors from step to step",
            "The operators are the same, but other results are needed after the step, or offsets into storages differ. "
            "Usually the script keeps a result in some steps and drops it in others.",
        ),
        "guard": (
            "Keep what torch.compile guards the same from step to step",
            "A guard is a condition for the use of a compiled graph: sizes, flags, modules, the gradient mode. Pad "
            "sizes or compile with dynamic=True. Give each value of a flag a function of its own.",
        ),
    }
    for cause, evidence in by_cause.items():
        title, text = texts.get(cause, (f"Recompilations: {cause}", ""))
        yield Advice(title, text, tuple(evidence[:8]))


def _graphs(document: Document) -> Iterator[Advice]:
    graphs = document["graphs"]
    if len(graphs["seen_once"]) >= _MANY_GRAPHS:
        yield Advice(
            "Few graphs recur",
            f"{plural(len(graphs['seen_once']), 'graph')} of {graphs['distinct']:,} occurred only once. Here such "
            "graphs run operator by operator. A Gaudi compiles each of them.",
            tuple(
                f"{line}: {plural(number, 'graph')} from here on, of {operators}"
                for line, operators, number in by_line(graphs["seen_once"])[:8]
            ),
        )


def _paddings(document: Document) -> Iterator[Advice]:
    if found := padding(document):
        yield Advice(
            "Pad to a few lengths",
            "Each length is an HPU graph of its own: a capture, a compilation on a Gaudi, and memory for its results.",
            tuple(found[:8]),
        )


def _memory(document: Document) -> Iterator[Advice]:
    memory = document["memory"]
    if memory["peak_line"] and 2 * memory["peak_growth_bytes"] >= memory["peak_bytes"] >= _MUCH_MEMORY:
        yield Advice(
            "One line makes most of the memory peak",
            "Compute in parts, or free tensors before this line.",
            (
                f"{where(memory, 'peak_')}: {size(memory['peak_growth_bytes'])} of the peak of "
                f"{size(memory['peak_bytes'])}",
            ),
        )


def _bound(document: Document) -> Iterator[Advice]:
    steps = document["steps"]
    if steps.get("host_bound_share", 0) > 0.5:
        yield Advice(
            "The host is the slower side",
            "The device idles while the script prepares batches, runs Python or issues small operators. More "
            "DataLoader workers, fewer and larger operators, and lazy mode help.",
            (
                f"{steps['host_bound_share']:.0%} of the steps' time is in steps where the host worked longer than "
                f"the device; the device was busy for {steps['device_busy_share']:.0%} of it",
            ),
        )
