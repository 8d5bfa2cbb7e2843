"""What a lane found, as a page: passed, failed and skipped, each with its reason."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from ecosystem.lanes import Lane


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


def text(lane: Lane, versions: str, commit: str, date: str, runs: dict[str, list[Case]]) -> str:
    """The page, in Markdown."""
    lines = [f"# {lane.title}", "", f"Commit {commit}, {date}; {versions}.", ""]
    lines += ["| run | passed | failed | skipped | minutes |", "| --- | --- | --- | --- | --- |"]
    for title, found in runs.items():
        number = Counter(case.outcome for case in found)
        minutes = sum(case.seconds for case in found) / 60
        lines.append(f"| {title} | {number['passed']} | {number['failed']} | {number['skipped']} | {minutes:.1f} |")
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
    return "\n".join(lines) + "\n"


def _expected(lane: Lane, case: Case) -> str:
    return next((why for part, why in lane.expected.items() if part in case.name + case.reason), "")
