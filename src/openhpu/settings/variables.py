"""The one table of environment variables, variables.toml: OpenHPU's own, then those of Gaudi's stack."""

from pathlib import Path
from typing import Any, NamedTuple

from openhpu.settings import kinds, tables
from openhpu.settings.kinds import Kind, Setting, SettingError

_EMPTY_IS_A_VALUE = ("text", "choice")


class Variable(NamedTuple):
    """A row of the file.

    `default`: as a text that the row allows; empty: unset. `strict`: the default with OPENHPU_STRICT=gaudi, where it is
    another one. `choices` are the allowed values of a choice, `low` and `high` the limits of a number. `read_at`: when
    it is read. A variable of Gaudi's that is never read, and so lacks it, concerns a graph, a compilation, a transport
    or hardware that this version does not have: its value is checked and changes nothing. `option`: its name among the
    options of torch.compile's backend, if it is one.
    """

    name: str
    kind: Kind
    meaning: str
    default: str = ""
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    strict: str = ""
    read_at: str = ""
    option: str = ""


def _setting(table: tables.Table[Variable], row: Variable) -> Setting:
    setting = Setting(
        name=row.name,
        kind=row.kind,
        default=None,
        when=row.read_at,
        meaning=row.meaning,
        effective=bool(row.read_at),
        choices=row.choices,
        low=row.low,
        high=row.high,
        option=row.option,
    )
    if row.default or row.kind in _EMPTY_IS_A_VALUE:
        setting = setting._replace(default=_parsed(table, row, setting, "default"))
    if row.strict:
        setting = setting._replace(strict=_parsed(table, row, setting, "strict"))
    return setting


def _parsed(table: tables.Table[Variable], row: Variable, setting: Setting, column: str) -> object:
    try:
        return setting.parse(getattr(row, column))
    except SettingError as error:
        raise table.error(row, column, str(error)) from None


def read(table: tables.Table[Variable]) -> tuple[Setting, ...]:
    """The variables of a table. Raises TableError for a default that its row does not allow."""
    return tuple(_setting(table, row) for row in table)


def _known() -> tuple[Setting, ...]:
    path = Path(__file__).with_name("variables.toml")

    def settings() -> list[tuple[Any, ...]]:
        return [tuple(setting) for setting in read(tables.read(path, Variable))]

    code = [Path(__file__), Path(kinds.__file__)]
    values = tables.derived(Path(__file__), [path, *code], settings)
    return tuple(map(Setting._make, values))


ROWS: tuple[Setting, ...] = _known()
_BY_NAME = {row.name: row for row in ROWS}
_FAMILIES = tuple(row for row in ROWS if row.name.endswith("*"))


def find(name: str) -> Setting | None:
    """The row of the variable `name`, which may be a member of a family (`LOG_LEVEL_PT_FALLBACK`)."""
    return _BY_NAME.get(name) or next((family for family in _FAMILIES if name.startswith(family.name[:-1])), None)
