"""The parser of `tables`: files of rows as values, and the places of what is wrong with them."""

import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from openhpu.settings.tables import R, Table, TableError

_SEPARATORS = {".tsv": "\t", ".csv": ","}
_NEEDED = object()  # the default of a column that must have a value
_TOML_ERROR = re.compile(r" \(at line (\d+), column (\d+)\)$")
_TOML_ROW = re.compile(r"^\[")
_TOML_KEY = re.compile(r"^([A-Za-z0-9_-]+)\s*=")
_QUOTES = ('"""', "'''")


class _Column(NamedTuple):
    name: str
    kind: Any  # str, int, float, bool or tuple
    default: Any
    choices: tuple[str, ...] = ()

    def from_text(self, text: str) -> Any:
        """The value of a cell. Raises ValueError with the problem."""
        if not text:
            return self.absent()
        if self.kind is str:
            return self.chosen(text)
        if self.kind is tuple:
            return tuple(text.split())
        if self.kind is bool:
            raise ValueError(f"a value of yes or no belongs into a .toml, but is {text!r}")
        try:
            return self.kind(text)
        except ValueError:
            raise ValueError(f"is {text!r}; expected a number ({self.kind.__name__})") from None

    def from_toml(self, value: Any) -> Any:
        """The value of a key. Raises ValueError with the problem."""
        if value is None or value == "":
            return self.absent()
        if self.kind is str and isinstance(value, str):
            return self.chosen(" ".join(line.strip() for line in value.splitlines()))
        if self.kind is tuple and isinstance(value, list) and all(isinstance(part, str) for part in value):
            return tuple(value)
        if type(value) is self.kind or (self.kind is float and type(value) is int):
            return value
        expected = "a list of texts" if self.kind is tuple else f"a value of the type {self.kind.__name__}"
        raise ValueError(f"is {value!r}; expected {expected}")

    def absent(self) -> Any:
        """The default. Raises ValueError where there is none."""
        if self.default is _NEEDED:
            raise ValueError("is empty; expected a value")
        return self.default

    def chosen(self, text: str) -> str:
        """The text. Raises ValueError unless it is one of the choices."""
        if self.choices and text not in self.choices:
            raise ValueError(f"is {text!r}; expected one of {', '.join(self.choices)}")
        return text


def rows(path: Path, row: type[R], unique: str | None) -> list[tuple[Any, ...]]:
    """The values of each row of a file. Raises TableError, and OSError for a file that cannot be read."""
    columns = _columns(row)
    text = _decoded(path)
    found = _rows_of_toml(path, text, columns) if path.suffix == ".toml" else _rows_of_lines(path, text, columns)
    values = [tuple(each) for each in found]
    if unique is not None:
        place = [column.name for column in columns].index(unique)
        _check_unique(Table(path, tuple(values)), place, unique)
    return values


def text_of(row: type[R], rows: Iterable[R], comment: str = "") -> str:
    """As `tables.text_of`."""
    lines = [f"# {line}" for line in comment.splitlines()]
    lines.append("\t".join(column.name for column in _columns(row)))
    for values in rows:
        cells = (" ".join(value) if isinstance(value, tuple) else str(value) for value in values)
        lines.append("\t".join(cells).rstrip("\t"))
    return "\n".join(lines) + "\n"


def _columns(row: type[Any]) -> list[_Column]:
    hints = get_type_hints(row)
    columns = []
    for name in row._fields:
        kind: Any = hints[name]
        if isinstance(kind, UnionType):
            (kind,) = (part for part in get_args(kind) if part is not type(None))
        choices: tuple[str, ...] = get_args(kind) if get_origin(kind) is Literal else ()
        plain = str if choices else get_origin(kind) or kind
        columns.append(_Column(name, plain, row._field_defaults.get(name, _NEEDED), choices))
    return columns


def _decoded(path: Path) -> str:
    content = path.read_bytes()
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        before = content[: error.start]
        column = error.start - before.rfind(b"\n")
        raise TableError(path, before.count(b"\n") + 1, column, f"is not UTF-8: {error.reason}") from None


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines with their numbers, without comments. The first one is the head."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line and not line.startswith("#"):
            yield number, line


def _rows_of_lines(path: Path, text: str, columns: list[_Column]) -> Iterator[list[Any]]:
    separator = _SEPARATORS[path.suffix]
    lines = _lines(text)
    number, head = next(lines, (1, ""))
    places = _places(path, number, head.split(separator), columns)
    for number, line in lines:
        cells = line.split(separator)
        if len(cells) > len(columns):
            problem = f"{cells[len(columns)]!r} is one cell too many; the columns are {head.split(separator)}"
            raise TableError(path, number, len(columns) + 1, problem)
        cells += [""] * (len(columns) - len(cells))
        values = []
        for column, place in zip(columns, places, strict=True):
            try:
                values.append(column.from_text(cells[place]))
            except ValueError as error:
                raise TableError(path, number, column.name, str(error)) from None
        yield values


def _places(path: Path, number: int, head: list[str], columns: list[_Column]) -> list[int]:
    """Where each column stands."""
    names = [column.name for column in columns]
    for place, given in enumerate(head):
        if given not in names or given in head[:place]:
            raise TableError(path, number, place + 1, f"the head has {given!r}; expected once each of {names}")
    for name in names:
        if name not in head:
            raise TableError(path, number, name, f"is not in the head, {head}")
    return [head.index(name) for name in names]


def _rows_of_toml(path: Path, text: str, columns: list[_Column]) -> Iterator[list[Any]]:
    first, *others = columns
    names = [column.name for column in others]
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = _TOML_ERROR.search(str(error))
        line, position = (int(place[1]), int(place[2])) if place else (text.count("\n") + 1, 1)
        raise TableError(path, line, position, _TOML_ERROR.sub("", str(error))) from None
    for number, (name, keys) in enumerate(tables.items()):
        if not isinstance(keys, dict):
            raise TableError(path, line_of(path, -1, name), name, f"stands outside of a row; expected [{first.name}]")
        for key in keys:
            if key not in names:
                raise TableError(path, line_of(path, number, key), key, f"is no column; the columns are {names}")
        values = [name]
        for column in others:
            try:
                values.append(column.from_toml(keys.get(column.name)))
            except ValueError as error:
                raise TableError(path, line_of(path, number, column.name), column.name, str(error)) from None
        yield values


def _check_unique(table: Table[Any], place: int, column: str) -> None:
    seen: set[Any] = set()
    for row in table.rows:
        if row[place] in seen:
            raise table.error(row, column, f"{row[place]!r} stands in a row before")
        seen.add(row[place])


def line_of(path: Path, number: int, column: str) -> int:
    """The line of the row of that number, counted from 0. Of a .toml: that of its key, or of its name if it lacks it;
    keys before the first row are those of row -1."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".toml":
        return [line for line, _ in _lines(text)][number + 1]
    line_of_row, row = 1, -1
    for line, found in _outside_of_texts(text):
        if _TOML_ROW.match(found):
            row += 1
            if row > number:
                break
            line_of_row = line
        elif row == number and (key := _TOML_KEY.match(found)) and key[1] == column:
            return line
    return line_of_row


def _outside_of_texts(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a .toml, with their numbers, that begin outside of a text of several lines."""
    inside = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if not inside:
            yield number, line
        for quotes in _QUOTES:
            if inside in ("", quotes) and line.count(quotes) % 2:
                inside = "" if inside else quotes
