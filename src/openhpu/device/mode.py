"""The execution mode: the mode that PT_HPU_LAZY_MODE requests, and the mode that runs.

The variable is read once: at the import of habana_frameworks.torch, or at the first use of a device. A later change is
ignored with a warning, as on a Gaudi.
"""

import contextlib
import os
import warnings
from collections.abc import Callable

from openhpu import settings

_VARIABLE = "PT_HPU_LAZY_MODE"
_requested: str | None = None
_text: str | None = None
_warned = False
# Functions of higher floors for lazy mode, called once, when the mode is read.
before_lazy: list[Callable[[], None]] = []


def fix() -> None:
    """Read the mode if that has not happened, else check that the variable is as it was.

    Raises SettingError for a value that is not allowed.
    """
    global _requested, _text
    if _requested is not None:
        check()
        return
    requested = settings.get(_VARIABLE)
    _text = os.environ.get(_VARIABLE)
    _requested = requested
    from openhpu import _C

    if requested == "1":
        from openhpu.compiler.client import client

        client.start()
        for prepare in before_lazy:
            prepare()
    _C.set_mode("lazy" if requested == "1" else "eager")


def check() -> None:
    """Warn, once, if PT_HPU_LAZY_MODE was changed after the mode was read."""
    global _warned
    if _requested is None or _warned or os.environ.get(_VARIABLE) == _text:
        return
    with contextlib.suppress(settings.SettingError):  # a value that is not allowed is ignored like any other
        if settings.get(_VARIABLE) == _requested:
            return
    _warned = True
    warnings.warn(
        f"{_VARIABLE} was changed to {os.environ.get(_VARIABLE)} after the mode had been read as {_requested}, and the "
        f"change is ignored: the process stays in {name()} mode. Set it before the import of habana_frameworks.torch "
        "and before the first use of an hpu device.",
        RuntimeWarning,
        stacklevel=3,
    )


def name() -> str | None:
    """eager or lazy, None as long as it has not been read."""
    if _requested is None:
        return None
    return "lazy" if _requested == "1" else "eager"


def is_lazy() -> bool:
    """Whether operators are accumulated into graphs until a step."""
    check()
    return _requested == "1"
