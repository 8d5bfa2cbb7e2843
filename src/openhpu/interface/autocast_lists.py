"""Autocast on hpu: which operators run in lower precision, in float32, or in the widest of their inputs' dtypes.

The lists are Gaudi's, by names of aten operators, in autocast.tsv. PT_HPU_AUTOCAST_LOWER_PRECISION_OPS_LIST and
PT_HPU_AUTOCAST_FP32_OPS_LIST name files that replace the first two. An operator in several lists belongs to the
first of: a file's list, lower precision, float32, widest.
"""

import functools
import re
import warnings
from pathlib import Path
from typing import Literal, NamedTuple

from openhpu import _C, settings
from openhpu.settings import tables


class PolicyList(NamedTuple):
    """A row of autocast.tsv."""

    policy: Literal["lower_precision", "fp32", "promote"]
    operators: tuple[str, ...]


_LISTS = dict(tables.beside(__file__, "autocast.tsv", PolicyList, unique="policy"))
LOWER_PRECISION, FP32, PROMOTE = _LISTS["lower_precision"], _LISTS["fp32"], _LISTS["promote"]

# Python's names of operators, which Gaudi's own lists contain.
_SPELLINGS = {"iadd": "add", "truediv": "true_divide"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_POLICIES = (
    ("lower_precision", "PT_HPU_AUTOCAST_LOWER_PRECISION_OPS_LIST", LOWER_PRECISION),
    ("fp32", "PT_HPU_AUTOCAST_FP32_OPS_LIST", FP32),
)


@functools.cache
def install() -> None:
    """Hand the lists to the core, once: before the first operator or fake tensor. The core keeps the first policy of
    an operator.

    Raises SettingError for a file that cannot be read or holds something else than names; warns about names that
    are no operators.
    """
    for policy, variable, names in sorted(_POLICIES, key=lambda row: not settings.get(row[1])):  # files first
        if not (file := settings.get(variable)):
            _C.register_autocast(list(names), policy)
        elif unknown := _C.register_autocast(list(read_list(variable, Path(file))), policy):
            text = f"{variable}: {file} names no operators: {', '.join(unknown)}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
    _C.register_autocast(list(PROMOTE), "promote")


def read_list(variable: str, file: Path) -> tuple[str, ...]:
    """The names of operators in `file`: one per line, `#` begins a comment. Raises SettingError."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise settings.SettingError(f"environment variable {variable}: cannot read {file}: {error}") from error
    names = []
    for number, line in enumerate(lines, start=1):
        name = line.partition("#")[0].strip()
        if not name:
            continue
        if not _NAME.fullmatch(name):
            raise settings.SettingError(
                f"{file}, line {number}: {name!r} is not the name of an operator; {variable} wants one per line, "
                "without overload, such as matmul"
            )
        names.append(_SPELLINGS.get(name, name))
    return tuple(names)
