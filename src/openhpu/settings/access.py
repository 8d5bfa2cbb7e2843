"""Reading the environment through the table."""

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from openhpu.settings.kinds import Setting
from openhpu.settings.variables import ROWS, find

_overrides: dict[str, Any] = {}
_followers: dict[str, Callable[[Any], None]] = {}
_warned: set[str] = set()
_PREFIXES = ("PT_HPU_", "OPENHPU_")


def get(name: str) -> Any:
    """The typed value of the variable `name`: overridden, from the environment, or its default.

    An empty variable counts as unset. KeyError for a name that is not in the table, SettingError for a value
    that is not allowed.
    """
    row = find(name)
    if row is None:
        raise KeyError(f"{name} is not an environment variable of OpenHPU; see docs/environment.md")
    if name in _overrides:
        return _overrides[name]
    text = os.environ.get(name, "")
    return row.parse(text, name) if text.strip() else default_of(row)


def default_of(row: Setting) -> Any:
    """The value of an unset variable."""
    return row.default if row.strict is None or not is_strict() else row.strict


def is_strict() -> bool:
    """Whether the device refuses what a Gaudi refuses: OPENHPU_STRICT=gaudi."""
    return bool(get("OPENHPU_STRICT"))


def is_set(name: str) -> bool:
    """Whether the variable `name` is overridden or set to a non-empty text."""
    return name in _overrides or bool(os.environ.get(name, "").strip())


def override(name: str, value: Any) -> None:
    """Let `get(name)` give `value` from now on, whatever the environment says. Validated like a text."""
    row = find(name)
    if row is None:
        raise KeyError(f"{name} is not an environment variable of OpenHPU; see docs/environment.md")
    text = str(int(value)) if isinstance(value, bool) else str(value)
    _overrides[name] = row.parse(text, name)
    _tell(name)


@contextmanager
def overridden(name: str, value: Any) -> Iterator[None]:
    """`override` for the length of a with block."""
    before = {name: _overrides[name]} if name in _overrides else {}
    override(name, value)
    try:
        yield
    finally:
        _overrides.pop(name, None)
        _overrides.update(before)
        _tell(name)


def follow(name: str, function: Callable[[Any], None]) -> None:
    """Call `function` with the value of the variable `name`, now and whenever it is overridden. The last one counts."""
    _followers[name] = function
    _tell(name)


def _tell(name: str) -> None:
    if name in _followers:
        _followers[name](get(name))


def check_environment() -> None:
    """Validate every variable of the table that is set; warn once about an unknown PT_HPU_ or OPENHPU_ name.

    Raises SettingError for the first value that is not allowed.
    """
    rows = {name: find(name) for name in os.environ}
    for name, row in rows.items():
        if row is not None and os.environ[name].strip():
            row.parse(os.environ[name], name)
    for name, row in rows.items():
        if row is None and name.startswith(_PREFIXES) and name not in _warned:
            _warned.add(name)
            warnings.warn(_unknown(name), RuntimeWarning, stacklevel=2)


def _unknown(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, [row.name for row in ROWS], n=1, cutoff=0.6)
    hint = f" Did you mean {near[0]}?" if near else ""
    return f"environment variable {name} is unknown and has no effect.{hint}"
