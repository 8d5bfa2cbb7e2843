"""Operators that scripts and libraries name and that are not built, each with its reason: not_built.tsv."""

from typing import NamedTuple

from openhpu.settings import tables


class NotBuilt(NamedTuple):
    """A row of the table."""

    operator: str
    reason: str


REFUSED: dict[str, str] = dict(tables.beside(__file__, "not_built.tsv", NotBuilt, unique="operator"))
