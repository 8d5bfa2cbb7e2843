"""The one table of environment variables, variables.tsv: OpenHPU's own, then those of Gaudi's stack.

Columns: name, kind, default (as a text that the row allows; empty: unset), the choices or the limits of a number, the
default under OPENHPU_STRICT=gaudi where it is another one, when it is read, the meaning, and the option of the backend
of torch.compile, if it is one. A variable of Gaudi's that
is never read concerns a graph, a compilation, a transport or hardware that this version does not have: its value is
checked and changes nothing.
"""

from pathlib import Path
from typing import cast

from openhpu.settings.kinds import Kind, Setting

_EMPTY_IS_A_VALUE = ("text", "choice")


def rows_beside(module: str, name: str) -> list[list[str]]:
    """The columns of each line of a table (.tsv) that lies beside the file of a module."""
    return [line.split("\t") for line in Path(module).with_name(name).read_text(encoding="utf-8").splitlines()]


def _row(columns: list[str]) -> Setting:
    name, kind, default, allowed, strict, when, meaning, *option = columns
    choices = tuple(allowed.split(",")) if kind.startswith("choice") else ()
    low, high = (int(n) if n else None for n in ("" if choices else allowed).partition("..")[::2])
    row = Setting(
        name=name,
        kind=cast("Kind", kind),
        default=None,
        when=when,
        meaning=meaning,
        effective=bool(when),
        choices=choices,
        low=low,
        high=high,
        option=option[0] if option else "",
    )
    value = row.parse(default) if default or kind in _EMPTY_IS_A_VALUE else None
    return row._replace(default=value, strict=row.parse(strict) if strict else None)


ROWS: tuple[Setting, ...] = tuple(map(_row, rows_beside(__file__, "variables.tsv")[1:]))
_BY_NAME = {row.name: row for row in ROWS}
_FAMILIES = tuple(row for row in ROWS if row.name.endswith("*"))


def find(name: str) -> Setting | None:
    """The row of the variable `name`, which may be a member of a family (`LOG_LEVEL_PT_FALLBACK`)."""
    return _BY_NAME.get(name) or next((family for family in _FAMILIES if name.startswith(family.name[:-1])), None)
