"""Phases of a script, and the graphs that a graph compiler would compile after the warm-up.

The first phase is the warm-up. It ends with the first step in which no graph was new, or when the script begins a phase
of its own (`openhpu.phase`). Each later compilation has a row: phase, step, line, operators that changed.
"""

from openhpu.observe.insight import schema

WARM_UP = "warm-up"
AFTER = "after warm-up"
# Of a server.
WEIGHTS = "weights"
CACHE = "KV cache"
SERVING = "serving"
BEFORE = {WARM_UP, WEIGHTS, CACHE}  # what is new in them is no compilation after the warm-up
_KEPT = 200


class Phases:
    """Of the steps and the new graphs of one process. The caller serialises the calls."""

    def __init__(self) -> None:
        self._phases: list[schema.Phase] = [_phase(WARM_UP)]
        self._named = False
        self._optimizer: str | None = None  # whose steps count: the first that was seen
        self._new_in_step = 0
        # Why the next new graph of the step differs from the one before it: a recompilation; None: that is not known.
        self.cause: schema.Change | None = None
        self._rows: list[schema.LateGraph] = []

    def begin(self, name: str, in_use: int = 0) -> None:
        """The script begins a phase; `in_use`: bytes on the device at the end of the phase before it."""
        self._named = True
        self._phases[-1]["bytes"] = in_use
        self._phases.append(_phase(name))

    def current(self) -> str:
        """The name of the phase."""
        return self._phases[-1]["name"]

    def named(self) -> str:
        """The name of the phase that the script began; empty: it began none."""
        return self.current() if self._named else ""

    def recipe(self) -> None:
        """A recipe was compiled."""
        self._phases[-1]["recipes"] += 1

    def step(self, source: str) -> None:
        """The end of a step, as an optimizer or mark_step tells it; where both do, an optimizer's steps count.

        An optimizer's step is followed by a mark_step of its own, and many scripts have another one before it.
        """
        if source != "mark_step" and self._optimizer is None:
            self._optimizer = source
        if self._optimizer not in (None, source):
            return
        self._phases[-1]["steps"] += 1
        self.cause = None
        new, self._new_in_step = self._new_in_step, 0
        if not new and not self._named and len(self._phases) == 1:
            self._phases.append(_phase(AFTER))

    def new_graph(self, place: schema.Place) -> None:
        """A graph was seen for the first time; `place`: where it begins."""
        phase = self._phases[-1]
        cause = self.cause
        self.cause = None
        self._new_in_step += 1
        phase["graphs"] += 1
        if phase["name"] not in BEFORE and len(self._rows) < _KEPT:
            self._rows.append({"phase": phase["name"], "step": phase["steps"] + 1, **place, "cause": cause})

    def graphs(self) -> int:
        """How many graphs were new."""
        return sum(phase["graphs"] for phase in self._phases)

    def document(self, in_use: int = 0) -> schema.ScriptPhases:
        """`phases`: name, steps, new graphs and recipes of each, and the bytes on the device at its end, or now.

        `later`: a row for each graph that was new after the warm-up.
        """
        self._phases[-1]["bytes"] = in_use
        return {"phases": self._phases, "later": self._rows}


def _phase(name: str) -> schema.Phase:
    return {"name": name, "steps": 0, "graphs": 0, "recipes": 0, "bytes": 0}
