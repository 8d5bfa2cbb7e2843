"""Shows this process's open devices to hl-smi, twice a second, from a thread that neither opens nor waits for one."""

import atexit
import contextlib
import itertools
import os
import sys
import threading
import time
from pathlib import Path

from openhpu import _C
from openhpu.observe import events
from openhpu.observe.smi import hlml, state_files

PERIOD_S = 0.5


class Publisher:
    """Two files for each open device, hl-smi's and hlml's, as long as the process lives."""

    def __init__(self, where: Path | None) -> None:
        self._where = where
        self._pid = os.getpid()
        self._files: dict[int, list[tuple[int, Path]]] = {}  # by module: hlml's, then hl-smi's
        self._before: dict[int, tuple[int, int]] = {}  # by module: time and busy time, ns
        self.percent: dict[int, int] = {}  # by index: the share of time that the device was busy in the last period
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="openhpu-smi", daemon=True)

    def start(self) -> None:
        """Begin, with a first look."""
        atexit.register(self.stop)
        self.look()
        self._thread.start()

    def _run(self) -> None:
        while not self._end.wait(PERIOD_S):
            self.look()

    def hlml_name(self, module: int) -> str:
        """The name of the shared object for a module; empty if there is none."""
        with self._lock:
            return hlml.name_of(self._files[module][0][1]) if module in self._files else ""

    def look(self) -> None:
        """Measure every open device, and write."""
        with self._lock:
            if self._end.is_set() or os.getpid() != self._pid:
                return
            for index in range(_C.device_count()):
                sample = _C.device_sample(index)
                if sample is not None:
                    self._show(index, *sample)

    def _show(self, index: int, used: int, peak: int, capacity: int, busy: int, module: int) -> None:
        now = time.monotonic_ns()
        then, busy_then = self._before.get(module, (now, busy))
        self._before[module] = (now, busy)
        percent = min(100, round(100 * (busy - busy_then) / (now - then))) if now > then else 0
        self.percent[index] = percent
        if self._where is None:
            return
        try:
            if module not in self._files:
                paths = hlml.path_of(self._where, module), state_files.path_of(self._where, module)
                self._files[module] = [(state_files.create(path), path) for path in paths]
            (readers, _), (own, _) = self._files[module]
            command = " ".join([Path(sys.executable).name, *sys.argv])
            hlml.write(readers, used)
            state_files.write(own, state_files.State(self._pid, module, percent, used, capacity, command))
        except OSError:  # a full or forbidden folder: the process is not shown, and works
            self._remove()
            self._where = None

    def stop(self) -> None:
        """Take the files away. A forked child leaves its parent's, whose thread may have held the lock."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            self._end.set()
            self._remove()
        self._thread.join()  # which may be collecting garbage, in destructors that Python can't stop at its end

    def _remove(self) -> None:
        for file, path in itertools.chain.from_iterable(self._files.values()):
            with contextlib.suppress(OSError):
                os.close(file)
                path.unlink()
        self._files.clear()


_publisher: Publisher | None = None


def install() -> None:
    """Start when a device is opened. A forked child that opens one gets a publisher of its own."""
    events.subscribe("device_acquired", _on_device)


def _on_device(event: events.Event) -> None:
    global _publisher
    _publisher = Publisher(state_files.folder())
    _publisher.start()


def utilization(index: int) -> int:
    """The data of a device of this process for hl-smi."""
    return 0 if _publisher is None else _publisher.percent.get(index, 0)


def hlml_name(index: int) -> str:
    """The shared object of a device of this process; empty if there is none.

    Of a device that is not open: the one that it would have on the first module that it would try.
    """
    sample = _C.device_sample(index)
    if sample is None:
        where = state_files.folder()
        return "" if where is None else hlml.name_of(hlml.path_of(where, _C.module_of(index)))
    if _publisher is None:
        return ""
    return _publisher.hlml_name(sample[-1])
