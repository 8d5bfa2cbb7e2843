"""Where the time of a compilation goes: phases, each with its seconds, and the one in which it failed."""

import contextlib
import time
from collections.abc import Callable, Iterator

START = "imports"
TRACE = "trace"
PASSES = "passes"
INDUCTOR = "Inductor"
CPP = "C++ compiler"


class Phases:
    """The phases of what this process does. A phase within another one counts for itself alone. `told` is called with
    the name of the phase that begins, or goes on. For one thread."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.told: Callable[[str], object] = lambda name: None
        self._open: list[str] = []
        self._since = 0.0

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """What happens within counts for this phase. An exception keeps the name of the innermost one, as `phase`."""
        self._turn()
        self._open.append(name)
        self.told(name)
        try:
            yield
        except Exception as error:
            if not hasattr(error, "phase"):
                error.phase = name  # type: ignore[attr-defined]
            raise
        finally:
            self._turn()
            self._open.pop()
            if self._open:
                self.told(self._open[-1])

    def taken(self) -> dict[str, float]:
        """Seconds of each phase since the last call."""
        self._turn()
        seconds, self.seconds = self.seconds, {}
        return seconds

    def _turn(self) -> None:
        now = time.perf_counter()
        if self._open:
            name = self._open[-1]
            self.seconds[name] = self.seconds.get(name, 0.0) + now - self._since
        self._since = now


phases = Phases()
