"""The results of a lane, as a page: passed, failed and skipped, each with its reason."""

import json
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from commands.kept import replace
from ecosystem.lanes import LANES, Lane

# The parts of a page, each written by itself; the first one begins the page.
TESTS = "# "
TIMES = "## Times of a step"
_CELL = re.compile(r"::test_feature\[(.+)/(\w+)\]$")  # of a table of features by modes
_ROW = r"^\| (.+) \| (\d+) \| (\d+) \| (\d+) \| [\d.]+ \| (.+) \|$"  # of a page's table of runs


class Case(NamedTuple):
    """One test."""

    name: str
    outcome: str  # "passed", "failed", "skipped"
    reason: str
    seconds: float


def cases(report: Path) -> list[Case]:
    """The tests of a pytest process, from its own report."""
    found = []
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        outcome, reason = "passed", ""
        for kind in ("failure", "error", "skipped"):
            element = case.find(kind)
            if element is not None:
                outcome = "skipped" if kind == "skipped" else "failed"
                reason = _reason(element.get("message") or "", element.text or "")
        name = f"{case.get('classname', '')}::{case.get('name', '')}"
        found.append(Case(name, outcome, reason, float(case.get("time", 0))))
    return found


def _reason(message: str, text: str) -> str:
    """The last exception that is told of: the first is often a test process's that says that another one failed."""
    told = [line for line in text.splitlines() if re.match(r"(E?\s*)[\w.]*(Error|Exception|Failure)\b.*: ", line)]
    reason = " ".join((told[-1].removeprefix("E") if told else message or text).split())
    return reason.replace(f"{Path(__file__).resolve().parents[1]}/", "")  # a page is the same wherever it is made


def unexplained(lane: Lane, all_cases: list[Case]) -> list[Case]:
    """Those that failed without being expected to."""
    return [case for case in all_cases if case.outcome == "failed" and not _expected(lane, case)]


def keep(folder: Path, title: str, when: str, found: list[Case]) -> None:
    """Write down what a run of a lane found at `when`, a commit and a date, beside its other runs."""
    path = folder / "results.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    kept[title] = {"when": when, "cases": found}
    replace(path, json.dumps(kept).encode())


def _earlier(page: str, title: str) -> tuple[list[str], list[str]]:
    """The row and the sections of a run that another checkout wrote into the page."""
    rows = [line for line in page.splitlines() if re.match(_ROW, line) and line.startswith(f"| {title} | ")]
    sections = [part for part in re.split(r"^(?=## )", page, flags=re.M) if part.startswith(f"## {title}: ")]
    return rows[:1], [line for part in sections for line in ("", *part.rstrip().splitlines())]


def tests_text(lane: Lane, versions: str, folder: Path, page: str = "") -> str:
    """The part of the page that tells of tests, in Markdown, from what was kept of the lane's runs. `page`: the page
    that is there, whose other runs stay."""
    kept = json.loads((folder / "results.json").read_text())
    kept = {one.title: kept[one.title] for one in lane.runs if one.title in kept}
    runs = {title: [Case(*case[:4]) for case in run["cases"]] for title, run in kept.items()}
    head = ["run", "passed", "failed", "skipped", "minutes", "commit"]
    lines = [f"# {lane.title}", "", f"With {versions}.", "", f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    earlier = {one.title: _earlier(page, one.title) for one in lane.runs if one.title not in kept}
    for title in (one.title for one in lane.runs):
        if title in earlier:
            lines += earlier[title][0]
            continue
        found = runs[title]
        number = Counter(case.outcome for case in found)
        minutes = sum(case.seconds for case in found) / 60
        cells = (str(number[kind]) for kind in ("passed", "failed", "skipped"))
        lines.append(f"| {title} | {' | '.join(cells)} | {minutes:.1f} | {kept[title]['when']} |")
    lines += _features([case for found in runs.values() for case in found])
    missing = [title for title, (row, _) in earlier.items() if not row]
    lines += ["", f"Not run yet: {', '.join(missing)}."] if missing else []
    for name, reason in lane.left_out.items():
        lines += ["", "Left out:", ""] if name == next(iter(lane.left_out)) else []
        lines.append(f"- `{name}`: {reason}")
    for title, found in runs.items():
        failed = [case for case in found if case.outcome == "failed"]
        lines += ["", f"## {title}: failed", ""] if failed else []
        lines += [
            f"- `{case.name}`: {_expected(lane, case) or 'not explained: ' + case.reason[:300]}" for case in failed
        ]
        skipped = Counter(case.reason[:160] for case in found if case.outcome == "skipped")
        lines += ["", f"## {title}: skipped, by its own reason", ""] if skipped else []
        lines += [f"- {number}: {reason}" for reason, number in skipped.most_common()]
    lines += [line for _, sections in earlier.values() for line in sections]
    return "\n".join(lines) + "\n"


def _features(cases: list[Case]) -> list[str]:
    """A table of features by modes, of the tests that are its cells."""
    found = [(*match.groups(), case.outcome) for case in cases if (match := _CELL.search(case.name))]
    table = {(name, mode): outcome for name, mode, outcome in found}
    names, modes = (dict.fromkeys(column) for column in ([one[0] for one in found], [one[1] for one in found]))
    lines = ["", f"| feature | {' | '.join(modes)} |", "| --- " * (len(modes) + 1) + "|"] if found else []
    return lines + [f"| {name} | {' | '.join(table.get((name, mode), '') for mode in modes)} |" for name in names]


def _expected(lane: Lane, case: Case) -> str:
    return next((why for part, why in lane.expected.items() if part in case.name + case.reason), "")


def write(path: Path, text: str, part: str) -> None:
    """Replace one part of a page, TESTS or TIMES, and leave the other as it is."""
    before, _, after = (path.read_text() if path.exists() else "").partition(f"{TIMES}\n")
    if part == TESTS:
        tests = text
        times = f"{TIMES}\n{after}" if after else ""
    else:
        tests = before
        times = text
    replace(path, "\n".join(piece.strip() + "\n" for piece in (tests, times) if piece.strip()).encode())


def write_summary(pages: Path) -> None:
    """One page of the whole, `docs/ecosystem.md`, from the pages of the lanes."""
    lines = [
        "# Released libraries on hpu",
        "",
        "Generated from the lanes' pages by `python -m ecosystem pages`; do not edit. Each line links to the",
        "lane's page. The page has versions, failures with their reasons, skips and, where there are steps to",
        "time, times. PyTorch's databases of operators, modules and optimizers are in",
        "[conformance.md](conformance.md). PyTorch's packages contain no tests of FSDP, DTensor and distributed",
        "checkpoints. `tests/distributed` has such tests.",
        "",
        "| lane | what | run | passed | failed | unexplained | skipped | commit, date |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, lane in LANES.items():
        path = pages / f"{name}.md"
        if not path.exists():
            lines.append(f"| {name} | {lane.title} | not run yet |  |  |  |  |  |")
            continue
        text = path.read_text().partition(TIMES)[0]
        unexplained = text.count(": not explained: ")
        for number, (title, passed, failed, skipped, when) in enumerate(re.findall(_ROW, text, re.MULTILINE)):
            first = f"[{name}](ecosystem/{name}.md) | {lane.title}" if not number else " | "
            left = unexplained if not number else ""
            lines.append(f"| {first} | {title} | {passed} | {failed} | {left} | {skipped} | {when} |")
    (pages.parent / "ecosystem.md").write_text("\n".join(lines) + "\n")
