"""HABANA_PROFILE=1: a trace of a whole process, without touching its script.

`import torch` imports this module, which imports what makes traces only where one is made.
"""

import functools
import os
import sys
from pathlib import Path
from typing import ClassVar

from openhpu import _C, settings
from openhpu.observe import process_names
from openhpu.observe.process_end import at_process_end


def enabled() -> bool:
    """Whether this process is to be traced. Gaudi's core sets `profile_api_light` by itself, which traces nothing."""
    return settings.get("HABANA_PROFILE") == "1"


class Tracer:
    """Records from its beginning until it is written, into `<session>_<process>.hltv`; with a launcher,
    `<session>_rank<rank>_<process>.hltv`; a process's second one and later ones with `_2` and so on behind that. The
    session and what is traced are hl-prof-config's."""

    _written: ClassVar[int] = 0  # by this process

    def __init__(self) -> None:
        from openhpu.observe.profiler import config

        self._config = config.load()
        self._listener: int | None = _C.trace_start()

    def forget(self) -> None:
        """In a forked child, which can't use the parent's devices."""
        self._listener = None
        Tracer._written = 0

    def path(self) -> Path:
        """The file that this process writes next."""
        here = process_names.rank()
        which = "" if here is None else f"rank{here}_"
        again = f"_{Tracer._written + 1}" if Tracer._written else ""
        return Path(self._config.output) / f"{self._config.session}_{which}{os.getpid()}{again}.hltv"

    def write(self) -> None:
        """Record no more, and write what was recorded, once; nothing if no device was used. What was issued and has not
        ended is not part of the trace. A file that can't be written is a message, and not the script's error."""
        if self._listener is None:
            return
        from openhpu.observe import added_sections
        from openhpu.observe.profiler import trace_file

        listener, self._listener = self._listener, None
        recorded = trace_file.Recorded.of(_C.trace_stop(listener))
        first, last = self._config.first, self._config.last
        if first > 1 or last is not None:
            chosen = [c for c in recorded.commands if first <= c.number and (last is None or c.number <= last)]
            recorded = recorded._replace(commands=chosen)
        if not (recorded.commands or recorded.spans):
            return
        path = self.path()
        try:
            more = added_sections.tracks(recorded.begin)
            trace_file.write(path, recorded, " ".join(sys.argv) or "python", process_names.rank(), more)
        except OSError as error:
            print(f"trace: {path} can't be written: {error.strerror}", file=sys.stderr)
        else:
            Tracer._written += 1
            lost = f" ({recorded.dropped:,} events had no room)" if recorded.dropped else ""
            print(f"trace: {len(recorded.commands):,} commands in {path}{lost}", file=sys.stderr)


@functools.cache
def start() -> None:
    """Trace this process, once."""
    tracer = Tracer()
    os.register_at_fork(after_in_child=tracer.forget)
    at_process_end(tracer.write)
