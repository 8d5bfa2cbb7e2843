"""A thread that tells the script about events of compilations and warnings.

A listener or a handler of warnings is code of the script. It may read a tensor, which under `OPENHPU_COMPILE=sync`
waits for the compiler. On a thread that answers the compiler's requests it would wait for its own thread.
"""

import queue
import sys
import threading
from collections.abc import Callable

_END_S = 10.0  # how long the end of the process waits for calls that have not run yet


class Aside:
    """Runs functions one after another, on a thread of its own. An exception is reported as those of threads are."""

    def __init__(self, name: str) -> None:
        self._given: queue.Queue[Callable[[], object] | None] = queue.Queue()  # None: the end
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        for told in iter(self._given.get, None):
            try:
                told()
            except BaseException:  # SystemExit, too, would end the thread
                report()
            self._given.task_done()
        self._given.task_done()

    def run(self, told: Callable[[], object]) -> None:
        """Run it soon. Returns at once; after `close` it is not run."""
        self._given.put(told)

    def settle(self, timeout: float) -> None:
        """Wait, for so many seconds at most, until what was given has run; not at all on its own thread."""
        if threading.current_thread() is not self._thread and self._thread.is_alive():  # in a forked child it is not
            with self._given.all_tasks_done:
                self._given.all_tasks_done.wait_for(lambda: not self._given.unfinished_tasks, timeout)

    def close(self) -> None:
        """Run the given functions, take no more, and end the thread. After 10 s the rest is left behind."""
        self._given.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(_END_S)


def report() -> None:
    """The exception that is being handled, as Python reports those of threads: nobody on this thread can handle it."""
    threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
