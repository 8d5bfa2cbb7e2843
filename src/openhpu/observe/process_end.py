"""Writes that are due when a process ends, in whatever way."""

import atexit
import contextlib
import os
from collections.abc import Callable
from typing import NoReturn


def at_process_end(write: Callable[[], object]) -> None:
    """Call `write` once in each process: when Python ends, or before os._exit, with which forked children end. Errors
    of `write` at os._exit are dropped. From Python 3.13 on, a child of multiprocessing calls exit handlers, too."""
    original = os._exit
    written_in = 0  # the number of the process

    def once() -> None:
        nonlocal written_in
        if written_in != os.getpid():
            written_in = os.getpid()
            write()

    def _exit(status: int) -> NoReturn:
        with contextlib.suppress(Exception):
            once()
        original(status)

    atexit.register(once)

    os._exit = _exit  # type: ignore[assignment]
