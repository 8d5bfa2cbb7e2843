"""README's table of speed, from what stands in RESULTS.md: `python -m benchmarks --readme` writes it.

A number says how many times as fast a training step on hpu is as the fastest that PyTorch's CPU device offers. As
written: the script as most are, with its optimizer's default, eager or with torch.compile of the model, or of model and
optimizer. Tuned: also with `fused=True`. Below 1, hpu is slower.
"""

import textwrap
from pathlib import Path
from typing import NamedTuple

from benchmarks.report import RESULTS, sections

README = RESULTS.parents[1] / "README.md"
_BEGIN, _END = "<!-- speed: written by `python -m benchmarks --readme` -->", "<!-- end of speed -->"
# What a script may be without another optimizer's option; the others need `fused=True`.
_AS_WRITTEN = {"CPU", "compile", "compile both", "CPU, torch.compile", "the same, compiled AdamW"}
_TUNED = {"CPU, fused", "compile, fused", "the same, fused AdamW"}


class Printed(NamedTuple):
    """A table of RESULTS.md: medians by row and column."""

    title: str
    rows: dict[str, dict[str, str]]


def tables(section: str) -> list[Printed]:
    """The tables that stand under a heading of RESULTS.md."""
    found: list[Printed] = []
    title = ""
    columns: list[str] = []
    for line in section.splitlines():
        if not line.startswith("|"):
            columns = []
            if line and not line.startswith("- "):
                title = line
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not columns:
            columns = cells
            found.append(Printed(title, {}))
        elif set(line) - set("|- "):
            found[-1].rows[cells[0]] = dict(zip(columns, cells, strict=True))
    return found


def median(cell: str) -> float:
    """The median of a cell such as "1.23 (1.15 to 1.27)"."""
    return float(cell.partition(" ")[0].replace(",", ""))


def gains(times: dict[str, float], ours: str) -> tuple[float, float]:
    """As written and tuned: the best peer's time divided by ours. `times`: of one step, in any unit."""
    as_written = min(time for name, time in times.items() if name in _AS_WRITTEN)
    tuned = min([as_written, *(time for name, time in times.items() if name in _TUNED)])
    return as_written / times[ours], tuned / times[ours]


def measured(results: str) -> dict[str, dict[str, tuple[float, float]]]:
    """By model and mode: as written and tuned. `results`: RESULTS.md's text."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    parts = sections(results)
    eager: dict[str, dict[str, float]] = {}
    for printed in tables(parts.get("lazy", "")):
        if "hpu, lazy" in printed.rows:
            # Relative to lazy mode in the same round.
            times = {name: median(row["this / hpu, lazy"]) for name, row in printed.rows.items()}
            own = found.setdefault(_model(printed.title), {})
            eager[_model(printed.title)] = {
                name: times[name] / times["compile"] for name in ("CPU", "CPU, fused") if name in times
            }
            own["eager mode"] = gains(times, "hpu, eager")
            own["lazy mode"] = gains(times, "hpu, lazy")
    for printed in tables(parts.get("compile", "")):
        if printed.title.startswith("training step, "):
            times = {name: 1 / median(row["CPU, torch.compile / this"]) for name, row in printed.rows.items()}
            model = _model(printed.title.removeprefix("training step, "))
            # That benchmark has no eager peers: `lazy` says what they take beside torch.compile.
            times |= eager.get(model, {})
            own = found.setdefault(model, {})
            own["`torch.compile`"] = gains(times, "hpu, torch.compile")
            if "hpu, graph of the step" in times:
                own["HPU graph"] = gains(times, "hpu, graph of the step")
    return found


def _model(title: str) -> str:
    return title.partition(":")[0].partition(",")[0]


def _facts(results: str, name: str) -> dict[str, str]:
    """What the first line of a section says about the machine and the code."""
    head = sections(results)[name].partition("\n")[0]
    return dict(fact.split(": ", 1) for fact in head.rstrip(".").split("; ") if ": " in fact)


def _taken(results: str, name: str) -> str:
    """When, and of which commit."""
    facts = _facts(results, name)
    return f"`{name}` {facts['date']}, {'commit ' + facts['commit'] if 'commit' in facts else 'commit not recorded'}"


def text(results: str) -> str:
    """The part of README between the two marks."""
    found = measured(results)
    modes = [*dict.fromkeys(mode for own in found.values() for mode in own)]
    head = ["a training step", *(f"{mode}, {column}" for mode in modes for column in ("as written", "tuned"))]
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    for model, own in found.items():
        numbers = [f"{gain:.2f}" for mode in modes for gain in own.get(mode, (float("nan"),) * 2)]
        lines.append("| " + " | ".join([model, *numbers]).replace("nan", "-") + " |")
    (small, *_) = tables(sections(results)["dispatch"])
    ratios = [median(row["done / CPU"]) for row in small.rows.values()]
    taken = "; ".join(_taken(results, name) for name in ("lazy", "compile", "dispatch"))
    processor = _facts(results, "lazy").get("processor", "an unknown processor")
    return "\n".join(
        [
            *lines,
            "",
            f"A single small operator takes {min(ratios):.1f} to {max(ratios):.1f} times as long as on the CPU device.",
            *textwrap.wrap(f"Measured on {processor}: {taken}.", 120),
        ]
    )


def replaced(readme: str, results: str) -> str:
    """README's text with the table of these results."""
    before, begin, rest = readme.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"README.md has no {_BEGIN} ... {_END}")
    return f"{before}{_BEGIN}\n\n{text(results)}\n\n{_END}{after}"


def write(readme: Path = README, results: Path = RESULTS) -> None:
    """Put the table into README.md."""
    readme.write_text(
        replaced(readme.read_text(encoding="utf-8"), results.read_text(encoding="utf-8")), encoding="utf-8"
    )
