"""The operators of media pipes by name: `fn.ImageDecoder(...)`."""

from typing import Any

from openhpu.interface.media.operators import OPERATORS, REFUSED

__all__ = list(OPERATORS)


def __getattr__(name: str) -> Any:
    if name in OPERATORS:
        return OPERATORS[name]
    if name.startswith("_"):
        raise AttributeError(name)
    if name in REFUSED:
        raise AttributeError(f"media pipes have no operator {name!r} here: {REFUSED[name]}")
    raise AttributeError(f"media pipes have no operator {name!r} here; there are {', '.join(OPERATORS)}")
