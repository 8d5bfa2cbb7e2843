"""What a run found: kept in a file as it is found, so that an interrupted run can go on."""

import json
import platform
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from commands import BUILD, kept
from openhpu import _C
from tests.conformance import floors
from tests.conformance.pool import Result

FOLDER = BUILD / "conformance"


def fingerprint() -> dict[str, str]:
    """What the results depend on: a run is resumed only with the same extension, suite and torch."""
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "extension": kept.fingerprint([Path(_C.__file__)]),
        "suite": kept.fingerprint([Path(__file__).parent]),
    }


@dataclass
class Run:
    """The results of one mode and part, by case."""

    mode: str
    part: str
    marks: dict[str, str]
    results: dict[str, Result] = field(default_factory=dict)
    wall_s: float = 0.0
    again: bool = False  # what is added now replaces results of the same case, perhaps with another build

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.mode}-{self.part}.jsonl"

    def start(self) -> None:
        """Begins the file anew."""
        self.path.unlink(missing_ok=True)
        self._append({"fingerprint": self.marks})

    def add(self, result: Result) -> None:
        if self.again:
            result = {**result, "again": True}
        self._append(result)
        self.results[result["case"]] = result

    def finish(self, wall_s: float) -> None:
        self.wall_s += wall_s
        self._append({"wall_s": wall_s})

    def _append(self, row: dict[str, Any]) -> None:
        try:
            kept.append(self.path, (json.dumps(row) + "\n").encode())
        except OSError as error:
            raise kept.KeptError(
                f"a result cannot be kept in {self.path}: {error.strerror or error}. The {len(self.results)} before it "
                "are there; make room and run the command again, which goes on"
            ) from error


def read(mode: str, part: str) -> Run | None:
    """The results of an earlier run, if there are any. A last line cut short by a kill is left out."""
    run = Run(mode, part, {})
    if not run.path.exists():
        return None
    for line in run.path.read_text().splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        if "fingerprint" in row:
            run.marks = row["fingerprint"]
        elif "wall_s" in row:
            run.wall_s += row["wall_s"]
        else:
            run.results[row["case"]] = row
    return run


def verdict(result: Result, reasons: dict[str, str], strict: bool) -> str:
    """passed, failed or skipped. Under `strict` a skip that passes is a failure of the list."""
    if result.get("outside"):
        return "failed" if floors.new_outside(result) else "skipped"  # in no recipe; the result says why
    expected = result["case"] in reasons
    if not expected:
        return "passed" if result["ok"] else "failed"
    return "failed" if result["ok"] and strict else "skipped"


def problem(result: Result, reasons: dict[str, str]) -> list[str]:
    """What to print for a failed case."""
    if new := floors.new_outside(result):
        return [new]
    if result["ok"]:
        return [f"passes, but tests/expectations/skips.toml expects it to fail: {reasons[result['case']]}"]
    more = result["count"] - len(result["failures"])
    return [*result["failures"], *([f"and {more} more"] if more > 0 else [])]


def count_line(verdicts: Counter[str]) -> str:
    return f"{verdicts['passed']} passed, {verdicts['failed']} failed, {verdicts['skipped']} skipped"
