"""Writes that are due when a process ends, in whatever way."""

import atexit
import contextlib
import os
from collections.abc import Callable
from typing import NoReturn


def at_process_end(write: Callable[[], object]) -> None:
    """Call `write` when Python ends, and before os._exit, with which forked children end and which calls no exit
    handlers. Errors of `write` at os._exit are dropped."""
    atexit.register(write)
    original = os._exit

    def _exit(status: int) -> NoReturn:
        with contextlib.suppress(Exception):
            write()
        original(status)

    os._exit = _exit  # type: ignore[assignment]
