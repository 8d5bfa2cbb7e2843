"""Operators that scripts and libraries name and that are not built, each with its reason: not_built.tsv."""

from openhpu.settings.table import rows_beside

REFUSED: dict[str, str] = dict(rows_beside(__file__, "not_built.tsv")[1:])  # type: ignore[arg-type]
