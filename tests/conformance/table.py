"""docs/conformance.md and its like: every operator, module and optimizer, by dtype and mode.

What a document says before the line of the versions, which begins with "torch ", is written there and stays.
"""

from collections import Counter, defaultdict
from pathlib import Path

import torch

from commands import ROOT
from tests.conformance import results
from tests.conformance.database import DTYPES, Case
from tests.conformance.results import Run

DOCUMENTS = {mode: ROOT / "docs" / f"conformance-{mode}.md" for mode in ("lazy", "compile", "gaudi")}
DOCUMENTS["eager"] = ROOT / "docs" / "conformance.md"
_TITLES = {
    "op_forward": "operators, forward",
    "op_backward": "operators, backward",
    "module": "modules",
    "optimizer": "optimizers",
    "recipe": "operators, compiled",
    "compile_forward": "operators, forward",
    "compile_backward": "operators, backward",
    "gaudi_eager": "Gaudi's table, eager",
    "gaudi_lazy": "Gaudi's table, recorded",
    "gaudi_recipe": "Gaudi's table, in recipes",
    "gaudi_compile": "Gaudi's table, torch.compile",
}
_FAMILIES = {
    "eager": ("op_forward", "op_backward"),
    "lazy": ("op_forward", "op_backward", "recipe"),
    "compile": ("compile_forward", "compile_backward"),
    "gaudi": ("gaudi_eager", "gaudi_lazy", "gaudi_recipe", "gaudi_compile"),
}
_NO_RECIPE = """\
No sample of these operators fits into a graph as a whole. They are CPU fallbacks, have results whose sizes depend on
values, are views and factories that run nothing on the device, or are refused by `torch.compile` itself."""
_MARKS = {"passed": "{}", "failed": "**{}!**", "skipped": "({})"}


def _cell(run: Run, family: str, name: str, dtypes: list[str], reasons: dict[str, str]) -> str:
    parts = []
    for dtype in dtypes:
        result = run.results.get(f"{family}:{name}:{dtype}")
        if result is not None:
            short = DTYPES[getattr(torch, dtype)]
            parts.append(_MARKS[results.verdict(result, reasons, strict=True)].format(short))
    return " ".join(parts) or "-"


def _table(rows: list[list[str]]) -> str:
    """The first row is the head."""
    head, *lines = ("| " + " | ".join(row) + " |" for row in rows)
    return "\n".join([head, "|---" * len(rows[0]) + "|", *lines])


def _totals(runs: list[Run], reasons: dict[str, str]) -> str:
    rows = [["mode", "family", "cases", "passed", "failed", "skipped", "in no recipe", "samples", "comparisons"]]
    for run in runs:
        for family, title in _TITLES.items():
            found = [r for r in run.results.values() if r["case"].startswith(family + ":")]
            if not found:
                continue
            verdicts = Counter(results.verdict(r, reasons, strict=True) for r in found)
            outside = sum(bool(r.get("outside")) for r in found)
            numbers = [len(found), verdicts["passed"], verdicts["failed"], verdicts["skipped"] - outside, outside]
            numbers += [sum(r["samples"] for r in found), sum(r["checked"] for r in found)]
            rows.append([run.mode, title, *(f"{n:,}" for n in numbers)])
    return _table(rows)


def _rows(runs: list[Run], families: tuple[str, ...], reasons: dict[str, str]) -> str:
    dtypes: dict[tuple[str, str], list[str]] = defaultdict(list)
    names: dict[str, None] = {}
    for run in runs:
        for text in run.results:
            case = Case.parse(text)
            if case.family in families:
                names.setdefault(case.name)
                if case.dtype not in dtypes[case.family, case.name]:
                    dtypes[case.family, case.name].append(case.dtype)
    order = [str(d).removeprefix("torch.") for d in DTYPES]
    columns = [(run, family) for run in runs for family in families]
    head = [f"{run.mode} {family.split('_')[-1]}" if len(families) > 1 else run.mode for run, family in columns]
    rows = [["name", *head]]
    for name in sorted(names, key=str.lower):
        cells = (
            _cell(run, family, name, sorted(dtypes[family, name], key=order.index), reasons) for run, family in columns
        )
        rows.append([name, *cells])
    return _table(rows)


def render(runs: list[Run], reasons: dict[str, str], jobs: int, total: int | None = None) -> str:
    """The document for runs of one build; `total`: how many cases a whole run has."""
    run = runs[0]
    reasons = {case: why for case, why in reasons.items() if case in run.results}
    unchecked = [
        name
        for r in runs
        for name, result in r.results.items()
        if result["ok"] and not result["checked"] and not result.get("outside")
    ]
    key = ", ".join(f"{short} {str(dtype).removeprefix('torch.')}" for dtype, short in DTYPES.items())
    parts = [
        "# Conformance",
        _introduction(run.mode),
        f"torch {run.marks.get('torch')}, Python {run.marks.get('python')}; "
        + "; ".join(f"{r.mode}: {r.wall_s / 60:.0f} minutes with {jobs} workers" for r in runs)
        + "."
        + _again(runs)
        + (f" {len(run.results):,} of {total:,} cases were run." if total and total != len(run.results) else ""),
        _totals(runs, reasons),
        f"Dtypes: {key}. `(f32)` is skipped, **f32!** fails, `-` has no case.",
    ]
    if unchecked:
        parts.append("No sample to compare, counted as passed: " + ", ".join(f"`{n}`" for n in unchecked) + ".")
    if precise := [f"`{name}`" for r in runs for name, result in r.results.items() if result.get("reference")]:
        parts.append(
            "More precise than the CPU, which computes in bfloat16 what compiled code computes in float32; compared "
            f"with the CPU's float32: {', '.join(precise)}."
        )
    parts += _recorded(run)
    if reasons:
        parts += ["## Skipped", "\n".join(f"- `{case}`: {reason}" for case, reason in reasons.items())]
    parts += ["## Operators", _rows(runs, _FAMILIES[run.mode], reasons)]
    for title, family in (("Modules", "module"), ("Optimizers", "optimizer")):
        if any(name.startswith(family) for name in run.results):
            parts += [f"## {title}", _rows(runs, (family,), reasons)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _introduction(mode: str) -> str:
    """What the document says so far before the results."""
    said = DOCUMENTS[mode].read_text() if DOCUMENTS[mode].exists() else ""
    return said.partition("# Conformance\n\n")[2].partition("\ntorch ")[0].rstrip("\n")


def _again(runs: list[Run]) -> str:
    cases = sum(bool(r.get("again")) for run in runs for r in run.results.values())
    return f" Of {cases:,} cases that failed, the result is that of a second run, on a later build." if cases else ""


def _recorded(run: Run) -> list[str]:
    """What lazy mode and torch.compile add: how much was recorded, and what no recipe holds."""
    if run.mode == "eager":
        return []
    recorded = sum(r.get("recorded", 0) for r in run.results.values())
    ran = "recorded" if run.mode == "lazy" else "part of compiled graphs"
    parts = [f"{recorded:,} operators were {ran}."]
    outside: dict[str, list[str]] = defaultdict(list)
    for r in run.results.values():
        if why := r.get("outside"):
            outside[why].append("`" + r["case"].removeprefix("recipe:").removeprefix("compile_") + "`")
    if outside:
        listed = "\n".join(f"- {why}: {', '.join(names)}" for why, names in sorted(outside.items()))
        parts += ["## In no recipe", _NO_RECIPE, listed]
    return parts


def write(run: Run, reasons: dict[str, str], jobs: int, total: int | None = None, path: Path | None = None) -> None:
    """Writes the document of the run's mode."""
    (path or DOCUMENTS[run.mode]).write_text(render([run], reasons, jobs, total))
