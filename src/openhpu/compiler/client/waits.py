"""Reports waits for the compiler: a wait that lasts gives a message on the terminal, or in the log."""

import os
import shutil
import sys
import threading
import warnings
from typing import Any, TextIO

from openhpu.observe import events
from openhpu.observe.aside import report

# Seconds after which a wait is told of; beyond the last: at its multiples.
AFTER_S = [3.0, 10.0, 30.0, 60.0]
_CLEAR = "\r\x1b[K"


class Teller(threading.Thread):
    """Tells of the core's waits for the compiler, on a thread of its own: who waits may be in the middle of a flush,
    where no Python code may run. It ends with the graph cache (`_C.close_graphs`)."""

    def __init__(self) -> None:
        super().__init__(name="openhpu-waits", daemon=True)
        self._shown: tuple[int, TextIO] | None = None  # the wait whose line stands on the terminal
        self.start()

    def run(self) -> None:
        from openhpu import _C

        while (notice := _C.next_wait_notice(AFTER_S)) is not None:
            try:
                self._tell(notice)
            except RuntimeWarning:  # that the script made an error: nobody on this thread can handle it
                report()
            except Exception:
                self._shown = None  # a stream that somebody closed: there is nobody to tell
        self._clear()

    def _tell(self, notice: dict[str, Any]) -> None:
        over = notice["over"]
        stream = sys.stderr
        if notice["given_up"]:
            self._clear()
            warnings.warn(_given_up(notice), RuntimeWarning, stacklevel=2)
        if not over or (self._shown and self._shown[0] == notice["wait"]):
            self._clear()
        if not over and stream is not None and stream.isatty():
            columns = shutil.get_terminal_size().columns  # a line that is broken could not be cleared
            stream.write(f"{text(notice)}; Ctrl-C ends it"[: columns - 1])
            stream.flush()
            self._shown = notice["wait"], stream
        params = {"ops": notice["operators"], "graphs": notice["graphs"], "seconds": notice["seconds"], "over": over}
        events.publish("compiler_wait", params, site=notice["site"])

    def _clear(self) -> None:
        """Our line is erased before the next output of the script."""
        if self._shown:
            (_, stream), self._shown = self._shown, None
            stream.write(_CLEAR)
            stream.flush()


def _given_up(notice: dict[str, Any]) -> str:
    where = f"{notice['site'][0]}:{notice['site'][1]}" if notice["site"] else "an unknown line"
    return (
        f"a graph of {notice['operators']} operators, recorded from {where} on, runs operator by operator: the "
        f"compiler did not answer for {notice['seconds']:.0f} s, longer than OPENHPU_COMPILE_DEADLINE allows, and is "
        "not waited for again until it answers"
    )


def text(notice: dict[str, Any]) -> str:
    """The graph that a thread waits for, and the time so far."""
    what = f"{notice['operators']} operators"
    if notice["graphs"] > 1:
        what = f"{notice['graphs']} graphs, one of {what}"
    where = f" from {os.path.basename(notice['site'][0])}:{notice['site'][1]}" if notice["site"] else ""
    # Short, with the important part first: a narrow terminal cuts the end off.
    return f"openhpu: {notice['seconds']:.0f} s: compiling {what}{where}"
