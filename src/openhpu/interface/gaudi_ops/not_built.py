"""Operators that scripts and libraries name and that are not built, each with its reason: not_built.tsv."""

from pathlib import Path

_LINES = Path(__file__).with_suffix(".tsv").read_text(encoding="utf-8").splitlines()[1:]
REFUSED: dict[str, str] = dict(line.split("\t") for line in _LINES)  # type: ignore[misc]
