"""A thread that tells the script about events of compilations and warnings.

A listener or a handler of warnings is code of the script. It may read a tensor, which under `OPENHPU_COMPILE=sync`
waits for the compiler. On a thread that answers the compiler's requests it would wait for its own thread.
"""

import sys
import threading
from collections import deque
from collections.abc import Callable

_END_S = 10.0  # how long the end of the process waits for calls that have not run yet


class Aside:
    """Runs functions one after another, on a thread of its own. An exception is reported as those of threads are."""

    def __init__(self, name: str) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[Callable[[], object]] = deque()
        self._given = self._done = 0
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                told = self._waiting.popleft()
            try:
                told()
            except BaseException:  # SystemExit, too, would end the thread
                report()
            with self._changed:
                self._done += 1
                self._changed.notify_all()

    def run(self, told: Callable[[], object]) -> None:
        """Run it soon. Returns at once; after `close` it is not run."""
        with self._changed:
            if not self._closed:
                self._waiting.append(told)
                self._given += 1
                self._changed.notify_all()

    def settle(self, timeout: float) -> bool:
        """Wait, for so many seconds at most, until what was given has run. False: it has not, or this is its
        thread."""
        if threading.current_thread() is self._thread or not self._thread.is_alive():  # in a forked child it is not
            return False
        with self._changed:
            wanted = self._given
            return self._changed.wait_for(lambda: self._done >= wanted, timeout)

    def close(self) -> None:
        """Run the given functions, take no more, and end the thread. After 10 s the rest is left behind."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if threading.current_thread() is not self._thread:
            self._thread.join(_END_S)


def report() -> None:
    """The exception that is being handled, as Python reports those of threads: nobody on this thread can handle it."""
    threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
