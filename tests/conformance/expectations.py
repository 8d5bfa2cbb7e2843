"""The reviewed list of cases that are expected to fail: tests/expectations/skips.toml."""

import tomllib
from collections.abc import Collection
from pathlib import Path

SKIPS = Path(__file__).resolve().parents[1] / "expectations" / "skips.toml"
# Forward and backward of the operators together.
LIMIT = 52


class BadExpectation(ValueError):
    """The list breaks its own rules."""


def load(known: Collection[str], path: Path = SKIPS) -> dict[str, str]:
    """The reasons by case. Each entry names one known case, has a reason of some length, and appears once."""
    data = tomllib.loads(path.read_text())
    if set(data) - {"skip"}:
        raise BadExpectation(f"{path.name}: unknown tables: {', '.join(sorted(set(data) - {'skip'}))}")
    reasons: dict[str, str] = {}
    names = set(known)
    for entry in data.get("skip", []):
        if set(entry) != {"case", "reason"}:
            raise BadExpectation(f"{path.name}: an entry has exactly a case and a reason: {entry}")
        case = entry["case"]
        reason = entry["reason"].strip()
        if case not in names:
            raise BadExpectation(f"{path.name}: no such case: {case}")
        if case in reasons:
            raise BadExpectation(f"{path.name}: listed twice: {case}")
        if len(reason) < 20:
            raise BadExpectation(f"{path.name}: {case} needs a reason that a reader can judge")
        reasons[case] = reason
    operators = sum(case.startswith("op_") for case in reasons)
    if operators > LIMIT:
        raise BadExpectation(f"{path.name}: {operators} entries for operators, at most {LIMIT}")
    return reasons
