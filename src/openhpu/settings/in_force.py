"""The value of each variable of the table in this environment, and its source: for `openhpu env`."""

import os
from collections.abc import Iterator
from typing import NamedTuple

from openhpu.settings.access import _PREFIXES, _overrides, _unknown, default_of
from openhpu.settings.kinds import Setting, SettingError
from openhpu.settings.variables import ROWS, find


class InForce(NamedTuple):
    """`state`: default, set, overridden, idle (set, and without effect in this version), invalid or unknown."""

    name: str
    value: str
    state: str
    why: str


def in_force() -> list[InForce]:
    """Every variable of the table, a family's members where they are set, and unknown names that look like ours."""
    return [*(_one(row, name) for row in ROWS for name in _names(row)), *_unknown_ones()]


def _names(row: Setting) -> list[str]:
    if not row.name.endswith("*"):
        return [row.name]
    return sorted(name for name in os.environ if find(name) is row) or [row.name]


def _one(row: Setting, name: str) -> InForce:
    text = os.environ.get(name, "")
    if name in _overrides:
        return InForce(name, row.show(_overrides[name]), "overridden", "set by this process")
    if not text.strip():
        why = "unset" if name not in os.environ else "empty, which counts as unset"
        default = row.show_default() if row.strict is None else row.show(default_of(row))
        return InForce(name, default, "default", why)
    try:
        value = row.parse(text, name)
    except SettingError:
        return InForce(name, text, "invalid", f"allowed: {row.allowed()}")
    if not row.effective:
        return InForce(name, row.show(value), "idle", "set, and without effect in this version")
    return InForce(name, row.show(value), "set", f"from the environment; read at {row.when}")


def _unknown_ones() -> Iterator[InForce]:
    for name, text in sorted(os.environ.items()):
        if name.startswith(_PREFIXES) and find(name) is None:
            yield InForce(name, text, "unknown", _unknown(name))


def table(rows: list[InForce], only_set: bool) -> str:
    """The rows as text; rows that are set are marked by their state."""
    shown = [row for row in rows if not only_set or row.state != "default"]
    if not shown:
        return "no variable is set: everything is at its default"
    width = max(len(row.name) for row in shown)
    return "\n".join(f"{row.name:<{width}}  {row.value or '(empty)'}  [{row.state}: {row.why}]" for row in shown)
