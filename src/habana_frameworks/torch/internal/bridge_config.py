"""The flags as functions: `get_<flag>()` for each, `set_<flag>(value)` for the settable ones, `env_setting`.

The functions are made from the table of environment variables (openhpu.settings) when they are asked for.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from openhpu import settings

SETTABLE = (
    "PT_HPU_GRAPH_DUMP_MODE",
    "PT_HPU_GRAPH_DUMP_FORMAT",
    "PT_COMPILATION_STATS_PATH",
    "PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES",
    "PT_ENABLE_INT64_SUPPORT",
    "PT_COMPILE_ONLY_MODE",
)

_FLAGS = {row.name.lower(): row.name for row in settings.ROWS if not row.name.endswith("*")}


def env_setting(var: str, val: Any) -> AbstractContextManager[None]:
    """Context manager: the flag `var` has the value `val` inside. KeyError for a flag that is not settable."""
    if var not in SETTABLE:
        raise KeyError(f"{var} cannot be set while the process runs; settable: {', '.join(SETTABLE)}")
    return settings.overridden(var, val)


def __getattr__(name: str) -> Callable[..., Any]:
    action, _, flag = name.partition("_")
    variable = _FLAGS.get(flag)
    if variable is not None and action == "get":
        return lambda: settings.get(variable)
    if variable in SETTABLE and action == "set":
        return lambda value: settings.override(variable, value)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    getters = [f"get_{flag}" for flag in _FLAGS]
    return sorted([*globals(), *getters, *(f"set_{name.lower()}" for name in SETTABLE)])
