"""A document as text for a terminal."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from openhpu.observe.insight import sentences
from openhpu.observe.insight.documents import collectives_of_ranks
from openhpu.observe.insight.schema import Document, SharedCollective


def text(documents: list[Document], exit_code: int | None) -> str:
    """The summary of a run; `exit_code`: None while it goes on."""
    lines = ["", "=" * 30 + " openhpu run " + "=" * 30]
    if exit_code:
        lines.append(f"the script ended with exit code {exit_code}")
    for document in documents:
        if len(documents) > 1:
            lines += ["", f"--- {sentences.title(document)}"]
        lines += _lines(document)
    if rows := collectives_of_ranks(documents) if len(documents) > 1 else []:
        lines += ["", "--- all ranks", *_listed("collectives", [_shared(row) for row in rows])]
    return "\n".join(lines) + "\n"


# Modes in which a list without entries is shown, as "none". In the others it is left out.
_ANY_MODE = ("eager", "lazy")


class _Row(NamedTuple):
    """A titled list of the summary, and the modes in which it says "none" where it has no entries."""

    title: str
    entries: Callable[[Document], list[str]]
    says_none: Sequence[str] = ()


_ROWS = (
    _Row(
        "compiled after warm-up", lambda d: [sentences.late_graph(r) for r in d["phases"]["later"]], says_none=["lazy"]
    ),
    _Row(
        "recompilations",
        lambda d: [sentences.recompilation_at_line(r) for r in d["recompilations"]],
        says_none=["lazy"],
    ),
    _Row(
        "CPU fallbacks",
        lambda d: [sentences.times(r, sentences.fallback(r)) for r in d["fallbacks"]],
        says_none=_ANY_MODE,
    ),
    _Row("differences from a Gaudi", lambda d: [sentences.times(r, sentences.difference(r)) for r in d["differences"]]),
    _Row("to run this on a Gaudi", sentences.needs_on_a_gaudi),
    _Row(
        "indices out of range (an accelerator reads an unspecified row here)",
        lambda d: [f"{sentences.where(r)}: {sentences.out_of_range(r)}" for r in d["indices_out_of_range"]],
    ),
    _Row(
        "integers of 64 bits that wrapped to 32 (OPENHPU_INT64=gaudi)",
        lambda d: [sentences.times(r, r["op"], "element") for r in d["int64_overflows"]],
    ),
    _Row("operands moved from the CPU", lambda d: [sentences.times(r, r["op"]) for r in d["moved_operands"]]),
    _Row(
        "left out by PT_COMPILE_ONLY_MODE",
        lambda d: [sentences.times(r, sentences.left_out(r)) for r in d["not_run"]],
    ),
    _Row("blocking reads", lambda d: [sentences.wait_at_line(r) for r in d["blocking_reads"]], says_none=_ANY_MODE),
    _Row(
        "waits for sizes that depend on values",
        lambda d: [sentences.wait_at_line(r) for r in d["shape_waits"]],
        says_none=_ANY_MODE,
    ),
    _Row("waits that a Gaudi does not have", lambda d: sentences.waits_of_this_device(d["own_waits"])),
    _Row("collectives", lambda d: [sentences.collective(c) for c in d["collectives"]]),
    _Row("user operators", lambda d: [sentences.user_operator(r) for r in d["user_operators"]]),
)
_ERRORS = _Row("errors", lambda d: [f"{sentences.where(e)}: {e['op']}: {e['message']}" for e in d["errors"]])


def _lines(document: Document) -> Iterator[str]:
    process = document["process"]
    if process["pid"] is None:
        yield sentences.empty_document(document)
        return
    yield f"{process['mode']} mode, {process['seconds']:.1f} s{sentences.unended_process(document)}"
    yield from _steps(document)
    yield from _graphs(document)
    yield from _phases(document)
    yield from _captures(document)
    for row in _ROWS:
        shown = _listed if process["mode"] in row.says_none else _found
        yield from shown(row.title, row.entries(document))
    yield from _memory(document)
    yield from _sections(document)
    yield from _found(_ERRORS.title, _ERRORS.entries(document))


def _phases(document: Document) -> Iterator[str]:
    words = sentences.phases(document)
    if len(words) > 1:
        yield from _found("phases", words)


def _captures(document: Document) -> Iterator[str]:
    """HPU graphs, and what their check found."""
    if document["captures"]:
        yield f"HPU graphs: {sentences.captures(document)}"
        yield from _listed(
            "each graph", [f"{sentences.where(r)}: {sentences.capture(r)}" for r in document["captures"]]
        )
        yield from _found("fewer graphs", sentences.padding(document))
    if checked := sentences.checks(document):
        yield f"HPU graphs checked: {checked}"
        for name, rows in (("different", document["graph_differences"]), ("not checked", document["graphs_unchecked"])):
            yield from _found(name, [f"{sentences.where(r)}: {sentences.check(r)}" for r in rows])


def _memory(document: Document) -> Iterator[str]:
    memory = document["memory"]
    peak = f"memory peak: {sentences.size(memory['peak_bytes'])} of {sentences.size(memory['limit_bytes'])}"
    if memory["peak_line"]:
        grown = sentences.size(memory["peak_growth_bytes"])
        peak += f"; {grown} of it came at {sentences.where(memory, 'peak_')}"
    yield peak
    yield from _found("does not fit", sentences.devices_too_small(document))


def _sections(document: Document) -> Iterator[str]:
    """Sections that other distributions add."""
    for section in document["sections"]:
        facts = "; ".join(f"{name} {value}" for name, value in section["facts"])
        yield from _listed(section["title"], [*([facts] if facts else []), *section["notes"]])


def _shared(row: SharedCollective) -> str:
    late = f", {sentences.milliseconds(row['skew_ns'])} of it for rank {row['slowest']}" if row["ranks"] > 1 else ""
    return f"{sentences.collective(row)}{late}"


def _steps(document: Document) -> Iterator[str]:
    steps = document["steps"]
    if not steps["count"]:
        yield "steps: none seen (neither an optimizer's step nor mark_step)"
        return
    unit = "optimizer steps" if steps["counted_by"] == "optimizer" else "calls of mark_step"
    if "median_ms" not in steps:
        yield f"steps: {steps['count']:,} ({unit})"
        return
    yield (
        f"steps: {steps['count']:,} ({unit}), median {steps['median_ms']:.2f} ms "
        f"({steps['fastest_ms']:.2f} to {steps['slowest_ms']:.2f})"
    )
    yield (
        f"  {sentences.bound_of_steps(steps)}; device busy {steps['device_busy_share']:.0%}, "
        f"host waiting {steps['host_waiting_share']:.0%}"
    )


def _graphs(document: Document) -> Iterator[str]:
    if document["process"]["mode"] != "lazy":
        return
    graphs, recipes = document["graphs"], document["recipes"]
    yield (
        f"graphs: {graphs['distinct']:,} different, {graphs['as_recipes']:,} runs as recipes, "
        f"{graphs['node_by_node']:,} node by node, {sentences.plural(len(graphs['seen_once']), 'graph')} seen only once"
    )
    compiled = [recipe for recipe in recipes if recipe["compilations"]]
    yield (
        f"recipes: {sentences.plural(len(recipes), 'recipe')}, {len(compiled)} compiled in "
        f"{sum(recipe['ms'] for recipe in compiled) / 1e3:.1f} s, {len(recipes) - len(compiled)} from disk"
    )
    if late := sentences.unfinished_compilations(graphs):
        yield f"  {late}"


def _listed(name: str, rows: list[str]) -> Iterator[str]:
    yield from _found(name, rows) if rows else [f"{name}: none"]


def _found(name: str, rows: list[str]) -> Iterator[str]:
    """Nothing where there are none."""
    if rows:
        yield f"{name}:"
        yield from (f"  {row}" for row in sentences.shortened(rows))
