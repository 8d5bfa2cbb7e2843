"""A virtual clock, and modules of chosen packages that see it in the place of `time`.

Times are whole nanoseconds, so that sums do not depend on their order.
"""

import builtins
import importlib.abc
import importlib.machinery
import sys
import time
import types
from collections.abc import Sequence

# Where the clock begins: 2025-01-01 as seconds since 1970, and a monotonic clock that is not 0, which is false.
EPOCH_NS = 1_735_689_600 * 10**9
START_NS = 10**9

_SINCE_1970 = ("time",)
_SINCE_START = ("monotonic", "perf_counter", "process_time", "thread_time")
# Functions whose last argument is a moment, and defaults to now.
_OF_NOW = ("localtime", "gmtime", "ctime")


def nanoseconds(seconds: float) -> int:
    """Whole nanoseconds, 0 or more."""
    return max(round(seconds * 1e9), 0)


class Clock:
    """The time of a simulated host, and of its device, which works through what it is given in order.

    `now`: the host's time, `free`: when the device is done with its work, both in nanoseconds from the begin.
    """

    def __init__(self) -> None:
        self.now = 0
        self.free = 0
        self.busy = 0  # of the device
        self.host = 0  # of the host's own work
        self.idle = 0  # of the host, until a request arrives

    def work(self, seconds: float) -> None:
        """The host works."""
        self.now += nanoseconds(seconds)
        self.host += nanoseconds(seconds)

    def launch(self, seconds: float) -> int:
        """The device gets work, behind what it has; the host goes on. When it will be done."""
        self.free = max(self.free, self.now) + nanoseconds(seconds)
        self.busy += nanoseconds(seconds)
        return self.free

    def wait(self, until: int) -> None:
        """The host waits for the device."""
        self.now = max(self.now, until)

    def sleep(self, until: int) -> None:
        """Nothing happens until a request arrives."""
        self.idle += max(until - self.now, 0)
        self.now = max(self.now, until)

    def module(self) -> types.ModuleType:
        """What stands for the module `time`: every function that reads a clock reads this one."""
        found = types.ModuleType("time", "A virtual clock; see openhpu_predict.serving.clock.")
        found.__dict__.update({name: value for name, value in vars(time).items() if not name.startswith("__")})

        def reads(start: int) -> tuple[object, object]:
            return (lambda: (start + self.now) / 1e9), (lambda: start + self.now)

        for names, start in ((_SINCE_1970, EPOCH_NS), (_SINCE_START, START_NS)):
            for name in names:
                found.__dict__[name], found.__dict__[f"{name}_ns"] = reads(start)
        for name in _OF_NOW:
            of = getattr(time, name)
            found.__dict__[name] = lambda seconds=None, of=of: of(
                (EPOCH_NS + self.now) / 1e9 if seconds is None else seconds
            )
        found.__dict__["strftime"] = lambda form, moment=None: time.strftime(
            form, time.gmtime((EPOCH_NS + self.now) / 1e9) if moment is None else moment
        )
        found.__dict__["sleep"] = lambda seconds: self.wait(self.now + nanoseconds(seconds))
        return found


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module whose `import` statements, at its top and in its functions, find other modules by some names."""

    def __init__(self, of: importlib.machinery.SourceFileLoader, replaced: dict[str, types.ModuleType]) -> None:
        super().__init__(of.name, of.path)
        self._replaced = replaced

    def exec_module(self, module: types.ModuleType) -> None:
        replaced, real = self._replaced, builtins.__import__

        def find(name, globals=None, locals=None, fromlist=(), level=0):  # type: ignore[no-untyped-def]
            if level == 0 and name in replaced:
                return replaced[name]
            return real(name, globals, locals, fromlist, level)

        # Functions take the builtins of the globals they are made with.
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": find}
        super().exec_module(module)


class Finder(importlib.abc.MetaPathFinder):
    """Finds the modules of `packages`, and gives them other modules for the names in `replaced`."""

    def __init__(self, packages: Sequence[str], replaced: dict[str, types.ModuleType]) -> None:
        self.packages = frozenset(packages)
        self._replaced = replaced

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """As `importlib.abc.MetaPathFinder` says."""
        if fullname.partition(".")[0] not in self.packages:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(spec.loader, self._replaced)
        return spec

    def loaded(self) -> list[str]:
        """The modules of these packages that were imported before, and keep the real ones."""
        return sorted(name for name in sys.modules if name.partition(".")[0] in self.packages)
