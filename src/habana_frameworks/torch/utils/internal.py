"""Modes and timing, as Gaudi's own packages ask for them."""

import functools
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from openhpu.device.mode import is_lazy

__all__ = ["Timer", "is_lazy", "lazy_only"]

P = ParamSpec("P")
R = TypeVar("R")


def lazy_only(function: Callable[P, R]) -> Callable[P, R | None]:
    """Decorator: call `function` in lazy mode only; otherwise do nothing and return None."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R | None:
        return function(*args, **kwargs) if is_lazy() else None

    return wrapper


class Timer:
    """Context manager that measures host time: `elapsed` in seconds after the with block."""

    def __init__(self) -> None:
        self.elapsed = 0.0
        self._start = 0.0

    def __enter__(self) -> "Timer":
        self._start = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        self.elapsed = time.perf_counter() - self._start
