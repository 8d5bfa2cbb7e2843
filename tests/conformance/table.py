"""docs/conformance.md: every operator, module and optimizer, by dtype and mode."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import torch

from tests.conformance import results
from tests.conformance.database import DTYPES, Case
from tests.conformance.results import Run

DOCUMENT = results.ROOT / "docs" / "conformance.md"
MODES = ("eager", "lazy", "compile")
_TITLES = {
    "op_forward": "operators, forward",
    "op_backward": "operators, backward",
    "module": "modules",
    "optimizer": "optimizers",
}
_INTRODUCTION = """\
Written by `make conformance` (`python -m tests.conformance.run --mode eager`); not edited by hand. Every case of the
installed torch's own databases (op_db, module_db, optim_db; the dtypes are those of their HPU column) is run on the
device and on PyTorch's CPU and compared: values at PyTorch's tolerances, shapes, dtypes, strides of forward results,
aliasing, changed arguments and the class of errors; operators also non-contiguous, with `out=` (right, empty, wrong
size, strided, wrong dtype, other device), as a method, in place, and with wrong inputs. Random operators are compared
by shape, reproducibility and distribution. What is expected to fail stands in `tests/expectations/skips.toml`, with its
reason."""
_MARKS = {"passed": "{}", "failed": "**{}!**", "skipped": "({})"}


def _cell(run: Run, family: str, name: str, dtypes: list[str], reasons: dict[str, str]) -> str:
    parts = []
    for dtype in dtypes:
        result = run.results.get(f"{family}:{name}:{dtype}")
        if result is not None:
            short = DTYPES[getattr(torch, dtype)]
            parts.append(_MARKS[results.verdict(result, reasons, strict=True)].format(short))
    return " ".join(parts) or "-"


def _totals(runs: list[Run], reasons: dict[str, str]) -> list[str]:
    head = ("mode", "family", "cases", "passed", "failed", "skipped", "samples", "comparisons")
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for run in runs:
        for family, title in _TITLES.items():
            found = [r for r in run.results.values() if r["case"].startswith(family + ":")]
            verdicts = Counter(results.verdict(r, reasons, strict=True) for r in found)
            numbers = [len(found), verdicts["passed"], verdicts["failed"], verdicts["skipped"]]
            numbers += [sum(r["samples"] for r in found), sum(r["checked"] for r in found)]
            lines.append(f"| {run.mode} | {title} | " + " | ".join(f"{n:,}" for n in numbers) + " |")
    return lines


def _rows(runs: list[Run], families: tuple[str, ...], reasons: dict[str, str]) -> list[str]:
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
    head = [f"{run.mode} {family.removeprefix('op_')}" if len(families) > 1 else run.mode for run, family in columns]
    lines = ["| name | " + " | ".join(head) + " |", "|---" * (len(head) + 1) + "|"]
    for name in sorted(names, key=str.lower):
        cells = [
            _cell(run, family, name, sorted(dtypes[family, name], key=order.index), reasons) for run, family in columns
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def render(runs: list[Run], reasons: dict[str, str], jobs: int) -> str:
    """The document for runs of one build."""
    run = runs[0]
    unchecked = [name for r in runs for name, result in r.results.items() if result["ok"] and not result["checked"]]
    key = ", ".join(f"{short} {str(dtype).removeprefix('torch.')}" for dtype, short in DTYPES.items())
    lines = [
        "# Conformance",
        "",
        _INTRODUCTION,
        "",
        f"torch {run.marks.get('torch')}, Python {run.marks.get('python')}; "
        + "; ".join(f"{r.mode}: {r.wall_s / 60:.0f} minutes with {jobs} workers" for r in runs)
        + ".",
        "",
        *_totals(runs, reasons),
        "",
        f"Dtypes: {key}. `(f32)` is skipped, **f32!** fails, `-` has no case.",
        "",
    ]
    if unchecked:
        lines += ["No sample to compare, counted as passed: " + ", ".join(f"`{n}`" for n in unchecked) + ".", ""]
    if reasons:
        lines += ["## Skipped", "", *(f"- `{case}`: {reason}" for case, reason in reasons.items()), ""]
    lines += ["## Operators", "", *_rows(runs, ("op_forward", "op_backward"), reasons), ""]
    lines += ["## Modules", "", *_rows(runs, ("module",), reasons), ""]
    lines += ["## Optimizers", "", *_rows(runs, ("optimizer",), reasons), ""]
    return "\n".join(lines)


def write(run: Run, reasons: dict[str, str], jobs: int, path: Path = DOCUMENT) -> None:
    """Writes the document, with the other modes' results of the same build beside this run's."""
    runs = []
    for mode in MODES:
        other = run if mode == run.mode else results.read(mode, "all")
        if other is not None and other.marks == run.marks:
            runs.append(other)
    path.write_text(render(runs, reasons, jobs))
