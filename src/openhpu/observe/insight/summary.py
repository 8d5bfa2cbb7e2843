"""A document as text for a terminal."""

from collections.abc import Iterator

from openhpu.observe.insight import observed
from openhpu.observe.insight.schema import Document, SharedCollective


def text(documents: list[Document], exit_code: int | None) -> str:
    """The summary of a run; `exit_code`: None while it goes on."""
    lines = ["", "=" * 30 + " openhpu run " + "=" * 30]
    if exit_code:
        lines.append(f"the script ended with exit code {exit_code}")
    for document in documents:
        if len(documents) > 1:
            lines += ["", f"--- {observed.title(document)}"]
        lines += _lines(document)
    if rows := observed.together(documents) if len(documents) > 1 else []:
        lines += ["", "--- all ranks", *_listed("collectives", [_shared(row) for row in rows])]
    return "\n".join(lines) + "\n"


def _lines(document: Document) -> Iterator[str]:
    process = document["process"]
    if process["pid"] is None:
        yield observed.nothing(document)
        return
    yield f"{process['mode']} mode, {process['seconds']:.1f} s{observed.unended(document)}"
    yield from _steps(document)
    yield from _graphs(document)
    if len(words := observed.phases(document)) > 1:
        yield from _found("phases", words)
    if document["captures"]:
        yield f"HPU graphs: {observed.captures(document)}"
        yield from _listed("each graph", [f"{observed.where(r)}: {observed.capture(r)}" for r in document["captures"]])
        yield from _found("fewer graphs", observed.padding(document))
    if checked := observed.checks(document):
        yield f"HPU graphs checked: {checked}"
        for name, rows in (("different", document["graph_differences"]), ("not checked", document["graphs_unchecked"])):
            yield from _found(name, [f"{observed.where(r)}: {observed.check(r)}" for r in rows])
    of_graphs = _listed if process["mode"] == "lazy" else _found
    yield from of_graphs("compiled after warm-up", [observed.later(r) for r in document["phases"]["later"]])
    yield from of_graphs("recompilations", [observed.recompiled(r) for r in document["recompilations"]])
    yield from _listed("CPU fallbacks", [observed.times(r, observed.fallback(r)) for r in document["fallbacks"]])
    yield from _found(
        "a Gaudi would not permit", [observed.times(r, observed.kindness(r)) for r in document["kindnesses"]]
    )
    yield from _found("to run this on a Gaudi", observed.needs(document))
    yield from _found(
        "indices out of range (an accelerator reads an unspecified row here)",
        [f"{observed.where(r)}: {observed.out_of_range(r)}" for r in document["indices_out_of_range"]],
    )
    yield from _found(
        "integers of 64 bits that wrapped to 32 (OPENHPU_INT64=gaudi)",
        [observed.times(r, r["op"], "element") for r in document["int64_overflows"]],
    )
    yield from _found("operands moved from the CPU", [observed.times(r, r["op"]) for r in document["moved_operands"]])
    yield from _listed("blocking reads", [observed.waited(r) for r in document["blocking_reads"]])
    yield from _listed("waits for sizes that depend on values", [observed.waited(r) for r in document["shape_waits"]])
    yield from _found("waits that a Gaudi does not have", observed.own_waits(document["own_waits"]))
    yield from _found("collectives", [observed.collective(c) for c in document["collectives"]])
    yield from _found("user operators", [observed.user_operator(r) for r in document["user_operators"]])
    memory = document["memory"]
    yield f"memory peak: {observed.size(memory['peak_bytes'])} of {observed.size(memory['limit_bytes'])}" + (
        f"; {observed.size(memory['peak_growth_bytes'])} of it came at {observed.where(memory, 'peak_')}"
        if memory["peak_line"]
        else ""
    )
    yield from _found("does not fit", observed.too_large(document))
    for section in document["sections"]:
        facts = ["; ".join(f"{name} {value}" for name, value in section["facts"])] if section["facts"] else []
        yield from _listed(section["title"], [*facts, *section["notes"]])
    yield from _found("errors", [f"{observed.where(e)}: {e['op']}: {e['message']}" for e in document["errors"]])


def _shared(row: SharedCollective) -> str:
    late = f", {observed.wait(row['skew_ns'])} of it for rank {row['slowest']}" if row["ranks"] > 1 else ""
    return f"{observed.collective(row)}{late}"


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
        f"  {observed.bound(steps)}; device busy {steps['device_busy_share']:.0%}, "
        f"host waiting {steps['host_waiting_share']:.0%}"
    )


def _graphs(document: Document) -> Iterator[str]:
    if document["process"]["mode"] != "lazy":
        return
    graphs, recipes = document["graphs"], document["recipes"]
    yield (
        f"graphs: {graphs['distinct']:,} different, {graphs['as_recipes']:,} runs as recipes, "
        f"{graphs['node_by_node']:,} node by node, {observed.plural(len(graphs['seen_once']), 'graph')} seen only once"
    )
    compiled = [recipe for recipe in recipes if recipe["compilations"]]
    yield (
        f"recipes: {observed.plural(len(recipes), 'recipe')}, {len(compiled)} compiled in "
        f"{sum(recipe['ms'] for recipe in compiled) / 1e3:.1f} s, {len(recipes) - len(compiled)} from disk"
    )
    if late := observed.unfinished(graphs):
        yield f"  {late}"


def _listed(name: str, rows: list[str]) -> Iterator[str]:
    yield from _found(name, rows) if rows else [f"{name}: none"]


def _found(name: str, rows: list[str]) -> Iterator[str]:
    """Nothing where there are none."""
    if rows:
        yield f"{name}:"
        yield from (f"  {row}" for row in observed.shortened(rows))
