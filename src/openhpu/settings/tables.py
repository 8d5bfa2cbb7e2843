"""The one reader of tables: data of the code in files beside it.

A table is a .tsv (cells between tabs), a .csv (cells between commas) or, for prose, a .toml. Its columns are the fields
of a NamedTuple. A field without a default must have a value in each row. A field's type is `str`, `int`, `float`,
`bool`, a `Literal` (one of these texts) or `tuple[str, ...]` (words between blanks). `X | None` is as X.

In a .tsv or .csv the first line is the head: the names of the columns, in the order of the cells. Then each line is a
row. Empty cells at the end of a line can be left out. Empty lines, and lines that begin with `#`, are comments; they
can stand before the head, too. Quotes and backslashes in a cell are text.

In a .toml each row is a table of TOML. Its name is the first column, the others are keys, one a line. A text of several
lines is read as one line.

What was read is kept in `__pycache__`, as Python keeps its byte code, and read anew when the file has changed: most of
the time of an import would be that of parsing. The parser (`table_files`) is imported where a file is parsed.
"""

import contextlib
import marshal
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

R = TypeVar("R", bound=tuple[Any, ...])  # a NamedTuple
T = TypeVar("T")

_VERSION = 1  # of the parser: one more when it gives other values


class TableError(ValueError):
    """A table is broken. The text names the file, the line and the column."""

    def __init__(self, path: Path, line: int, column: str | int, problem: str) -> None:
        super().__init__(f"{path}, line {line}, column {column}: {problem}")


class Table(Generic[R]):
    """The rows of a file, in its order."""

    def __init__(self, path: Path, rows: tuple[R, ...]) -> None:
        self.path = path
        self.rows = rows

    def __iter__(self) -> Iterator[R]:
        return iter(self.rows)

    def error(self, row: R, column: str, problem: str) -> TableError:
        """The error of a value that the reader accepts and the code does not."""
        from openhpu.settings import table_files

        number = next(number for number, each in enumerate(self.rows) if each is row)
        return TableError(self.path, table_files.line_of(self.path, number, column), column, problem)


def read(path: Path, row: type[R], unique: str | None = None) -> Table[R]:
    """The table of a file, whose columns are the fields of `row`. The values of the column `unique` differ.

    Raises TableError, and OSError for a file that cannot be read.
    """

    def parsed() -> list[tuple[Any, ...]]:
        from openhpu.settings import table_files

        return table_files.rows(path, row, unique)

    named: Any = row
    columns = (named.__annotations__, named._field_defaults, unique)
    values = derived(path, [path], parsed, columns)
    return Table(path, tuple(map(named._make, values)))


def derived(place: Path, sources: Sequence[Path], compute: Callable[[], T], more: object = None) -> T:
    """What `compute` gives: texts, numbers, lists, tuples and dicts. It is kept in `__pycache__` beside the file
    `place`, under its name.

    It is computed anew when one of the files `sources` has changed, as Python's byte code is, or when `repr(more)` is
    another one. `sources` has all that decides about the value: the tables, and the code of `compute`. Raises OSError
    for a source that is not there.
    """
    states = [(state.st_mtime_ns, state.st_size) for state in map(os.stat, sources)]
    key = repr((states, more, _VERSION))
    kept = place.parent / "__pycache__" / f"{place.name}.{sys.implementation.cache_tag}.rows"
    try:
        found_key, value = marshal.loads(kept.read_bytes())
    except (OSError, EOFError, ValueError, TypeError):
        found_key = None
    if found_key != key:
        value = compute()
        _keep(kept, key, value)
    return value  # type: ignore[no-any-return]


def _keep(file: Path, key: str, value: Any) -> None:
    """Write a value where Python would write byte code; nowhere else, and never an error."""
    if sys.dont_write_bytecode:
        return
    own = file.with_suffix(f".{os.getpid()}")
    with contextlib.suppress(OSError):
        file.parent.mkdir(exist_ok=True)
        own.write_bytes(marshal.dumps((key, value)))
        own.replace(file)


def beside(module: str, name: str, row: type[R], unique: str | None = None) -> Table[R]:
    """`read` of a file in the folder of a module, which gives its `__file__`."""
    return read(Path(module).with_name(name), row, unique)


def text_of(row: type[R], rows: Iterable[R], comment: str = "") -> str:
    """The rows as the text of a .tsv, after a comment."""
    from openhpu.settings import table_files

    return table_files.text_of(row, rows, comment)
