"""A check of graphed functions (OPENHPU_CHECK_GRAPHS): each replay beside the plain call, whose effects are undone."""

import atexit
import functools
import gc
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from openhpu import _C
from openhpu.capture.hpu_graphs.apart import Outside, run_apart
from openhpu.capture.hpu_graphs.capture import HPUGraph
from openhpu.capture.hpu_graphs.checked import Plain
from openhpu.capture.hpu_graphs.compared import (
    COLLECTIVES,
    NO_MEMORY,
    Site,
    allowance,
    amount,
    close,
    coarsest,
    new_number,
    say,
)
from openhpu.capture.hpu_graphs.kept import ABSENT, Change
from openhpu.capture.hpu_graphs.outcome import Outcome
from openhpu.capture.hpu_graphs.reached import Reached
from openhpu.capture.hpu_graphs.undone import Busy, HostGenerators, Uncapturable, undone_capture
from openhpu.observe import events

Tensors = Sequence[torch.Tensor]

_PATIENCE_S = 20.0  # for a capture or a check on another thread
_MOST_TEXT = 80  # characters of a value
_DECIDED = "Python code chose which, and a replay runs no Python code"
_CAUSES = {
    "number": "`{argument}` was {before} at the capture and is {after} now, and a replay uses the captured one",
    "contents": "it reads another outside tensor than at the capture, and a replay reads the captured one",
    "host": "it takes a value from the host, and a replay takes the one of the capture",
    "graph": f"the function calls it now and called {{before}} at the capture: {_DECIDED}",
    "more": f"the function calls it now and did not at the capture: {_DECIDED}",
    "fewer": f"the function called it at the capture and does not now: {_DECIDED}",
    "operand": f"its `{{argument}}` is another tensor, or another part of it, than at the capture: {_DECIDED}",
    "result": f"result {{argument}} is another tensor, or another part of it, than at the capture: {_DECIDED}",
}
_OTHER = "its `{argument}` has another {cause} than at the capture: {before}, now {after}"
_checking = threading.RLock()  # plain calls run one at a time: each gives Python's objects back


Prepare = Callable[[HPUGraph], Callable[[], Plain]]


class _Plain(HPUGraph):
    """The plain call, recorded while it runs."""

    @staticmethod
    def _prepare() -> None:
        """The replay that is checked has done it."""


class _Copy(NamedTuple):
    """A tensor that a replay changes, its contents after the plain call, and what the plain call wrote to."""

    actual: torch.Tensor
    contents: torch.Tensor
    source: torch.Tensor


class Check:
    """The check of one captured graph of a function. `outcome`: what the capture made; `forward`: for a backward."""

    def __init__(
        self,
        function: Callable[..., Any],
        graph: HPUGraph,
        kind: str = "",
        outcome: Outcome | None = None,
        forward: "Check | None" = None,
    ) -> None:
        self.owner = getattr(function, "__qualname__", type(function).__name__) + kind
        self._number = new_number()
        self._graph, self._outcome, self._forward, self._site = graph, outcome, forward, _C.current_site()
        self._state, self._now = Reached(("", function)), Reached(("", function))  # at the capture, at the last call
        self._written = [t for t in self._state.tensors if graph.writer_of(t)[0] >= 0]
        self._unchecked = COLLECTIVES if graph.describe()["collectives"] else ""
        self.plain: list[torch.Tensor] | None = None  # results of the last plain call
        self.plain_graph: HPUGraph | None = None
        self._given: dict[int, weakref.ref[torch.Tensor]] = {}  # to the script, by the last call
        self._reads = 0  # of the host, when they were given

    def run(
        self,
        prepare: Prepare,
        replay: Callable[[], list[torch.Tensor]],
        arguments: Any = (),
        why: str = "",
        forward: HPUGraph | None = None,
    ) -> list[torch.Tensor]:
        """The results of `replay`, compared with those of the call that `prepare` returns, which is undone.

        `why`: the reason for a difference, if it is known. `forward`: of a backward, the plain call of its forward.
        """
        if _C.is_capturing():  # graphs do not nest, as the replay says
            return replay()
        _look()
        before, graph = self.plain, _Plain()
        self.plain, self.plain_graph = None, graph
        plain, copies = self._run_plain(prepare, graph, arguments, why)
        results = replay()
        if plain is None:
            return results
        self.plain = plain.results
        forwards = (self._forward._graph, forward) if self._forward and forward else None
        self._compare(results, plain, copies, graph, why, forwards)
        self._note_held(before, results)
        return results

    def _say(self, outcome: str, text: str = "", op: str = "", site: Site = None) -> None:
        say(self.owner, outcome, text, op, site, self._number)

    def _run_plain(
        self, prepare: Prepare, graph: HPUGraph, arguments: Any, why: str
    ) -> tuple[Plain | None, list[_Copy]]:
        if not _checking.acquire(timeout=_PATIENCE_S):
            self._say("unchecked", "another thread checks a graph")
            return None, []
        try:
            return self._run_plain_alone(prepare, graph, arguments, why)
        finally:
            _checking.release()

    def _run_plain_alone(
        self, prepare: Prepare, graph: HPUGraph, arguments: Any, why: str
    ) -> tuple[Plain | None, list[_Copy]]:
        state = given = None
        if not self._unchecked:
            self._now = state = self._now.of_now()
            given = Reached(("arguments", arguments))
        refused = self._unchecked or (state and state.refused) or (given and given.refused)
        if refused or state is None or given is None:
            self._say("unchecked", refused or "")
            return None, []
        generators, random = HostGenerators(), _C.default_generator(_C.current_device())
        seeds = random.get_state()
        try:
            call = prepare(graph)
            with undone_capture(graph, generators, compile=False, patience_s=_PATIENCE_S):
                plain = run_apart(call)
                graph.mark_end()
                written = [*plain.written, *self._changed(state)]
                return plain, [_Copy(actual, source.detach().clone(), source) for actual, source in written]
        except torch.OutOfMemoryError:
            self._say("unchecked", NO_MEMORY)
        except Outside as error:
            self._unchecked = str(error)
            self._say("unchecked", self._unchecked)
        except Busy:
            self._say("unchecked", "another thread captures a graph")
        except Exception as error:
            refused_now = isinstance(error, Uncapturable)
            what = "does now what no graph can hold" if refused_now else f"raises {type(error).__name__}"
            self._say("different", why or f"the plain call {what}: {error}", site=self._site)
        finally:
            random.set_state(seeds)
            generators.restore()
            given.restore()
            state.restore()
        return None, []

    def _changed(self, state: Reached) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """The tensors on hpu that the function reaches and changes, and what has taken their places in the plain call:
        a gradient may be another tensor in each call."""
        others = {id(change.was): change.now for change in state.changes() if isinstance(change.was, torch.Tensor)}
        changed = {id(t): (t, others.get(id(t), t)) for t in (*self._written, *state.written())}
        return [
            (t, other)
            for t, other in changed.values()
            if isinstance(other, torch.Tensor) and other.device == t.device and _metadata(t) == _metadata(other)
        ]

    def _compare(
        self,
        results: Tensors,
        plain: Plain,
        copies: list[_Copy],
        graph: HPUGraph,
        why: str,
        forwards: tuple[HPUGraph, HPUGraph] | None,
    ) -> None:
        def find() -> dict[str, Any] | None:
            return self._graph.difference(graph, [*results], plain.results, forwards)

        if self._says_other_outcome(results, plain, find):
            return
        actual = [*results, *(copy.actual for copy in copies)]
        sources = [*plain.results, *(copy.source for copy in copies)]
        unequal = _C.unequal(actual, [*plain.results, *(copy.contents for copy in copies)])
        difference = find() if unequal else None
        if difference is None:
            # The same operators on the same inputs: a recipe may compute with more digits, or in another order.
            allowed, dtypes = allowance(self._graph), graph.coarsest(sources)
            all_dtypes = graph.describe()["dtypes"]
            unequal = [(i, a, b) for i, a, b in unequal if not close(a, b, allowed(dtypes[i] or coarsest(all_dtypes)))]
        if not unequal:
            self._say("equal")
            return
        (_, op, site), i, a, b = min(
            ((graph.writer_of(sources[i]), i, a, b) for i, a, b in unequal), key=lambda one: one[0][0]
        )
        what = f"result {i}" if i < len(results) else "a tensor that it changes"
        first_op, first_site, reason = self._reason(difference)
        text = f"{what} differs in {amount(a, b)}: {why or reason}"
        self._say("different", text, first_op or op, first_site or site or self._site)

    def _says_other_outcome(self, results: Tensors, plain: Plain, find: Callable[[], dict[str, Any] | None]) -> bool:
        """Whether the plain call returns other tensors, or another value beside them; then it is said. `find`: where
        the operators begin to differ."""
        if [_metadata(t) for t in results] != [_metadata(t) for t in plain.results]:
            op, site, reason = self._reason(find())
            self._say("different", f"the plain call returns other tensors; {reason}", op, site)
            return True
        other = self._outcome.unlike(plain.outcome) if self._outcome and plain.outcome else None
        if other is None:
            return False
        op, site, reason = self._reason(find(), fallback=f"{_DECIDED}{self._first_change()}")
        place, was, now = other
        text = f"{place} is {_told(now)} of the plain call and {_told(was)} of a replay: {reason}"
        self._say("different", text, op, site or self._site)
        return True

    def _reason(self, found: dict[str, Any] | None, fallback: str = "") -> tuple[str, Site, str]:
        """Where the plain call begins to do something else than the graph, and why."""
        if not found:
            recipe = self._graph.describe()["recipe"]
            by = "its recipe computes otherwise" if recipe else "something else writes to the memory of the graph"
            by += ", or the function seeds a random generator" if self._graph.describe()["draws"] else ""
            return "", None, fallback or f"the plain call has the same operators and inputs, so {by}"
        cause = found["cause"]
        found |= {name: found[name].rstrip(".") for name in ("before", "after")}  # of numbers: "2."
        tensors = cause in ("contents", "size", "stride", "dtype")
        changes = [*self._state.changes()]
        fitting = [c for c in changes if isinstance(c.now if c.now is not None else c.was, torch.Tensor) == tensors]
        if cause == "number":
            fitting = [c for c in fitting if _text(c.now) == found["after"]] or fitting
        if cause == "host":
            fitting = [c for c in fitting if c.contents] or fitting
        reason = _CAUSES.get(cause, _OTHER).format(**found)
        return found["op"], found["site"], reason + (_of_change(fitting[0], tensors) if fitting else "")

    def _first_change(self) -> str:
        changes = [*self._state.changes()]
        return _of_change(changes[0], isinstance(changes[0].now, torch.Tensor)) if changes else ""

    # Results that are overwritten

    def give(self, results: list[torch.Tensor], storages: set[int]) -> list[torch.Tensor]:
        """The results as tensors of this call's own, in the same memory, so that it can be seen who still has them.

        But not those that lie in other than the graph's `storages`.
        """
        with torch.inference_mode(False), torch.no_grad():
            own = [t.detach() if t.untyped_storage()._cdata in storages else t for t in results]
        self.note_given(own, results)
        return own

    def note_given(self, results: Tensors, others: Tensors = ()) -> None:
        """These go to the script, which may hold them until the next call; but not the `others`."""
        own = {*map(id, others)}
        self._given = {i: weakref.ref(tensor) for i, tensor in enumerate(results) if id(tensor) not in own}
        self._reads = _reads()

    def _note_held(self, before: list[torch.Tensor] | None, results: Tensors) -> None:
        if before is None or self._reads != _reads():
            return
        for i, reference in self._given.items():
            if reference() is not None and _C.unequal([before[i]], [(self.plain or before)[i]]):
                _, op, site = self._graph.writer_of(results[i])
                text = f"result {i} is still in use, and a later replay has overwritten it; keep a clone() of it"
                _suspects.append((reference, self.owner, text, op, site))


# Results that the script had when a replay overwrote them. If it has them later as well, it may read them.
_suspects: list[tuple[weakref.ref[torch.Tensor], str, str, str, Site]] = []


def _reads() -> int:
    """How often the host has read values, or had them copied to it."""
    counters = _C.counters()
    return counters["blocking_reads"] + counters["copies_d2h"]


@functools.cache
def _listen() -> None:
    events.subscribe("blocking_read", lambda _: _look())
    atexit.register(_look)


def _look() -> None:
    """Report the suspects that the script still has."""
    if any(reference() is not None for reference, *_ in _suspects):
        gc.collect()
    suspects = _suspects.copy()
    _suspects.clear()
    for reference, owner, text, op, site in suspects:
        if reference() is not None:
            say(owner, "overwritten", text, op, site)


def begin(function: Callable[..., Any], graph: HPUGraph, kind: str = "", **known: Any) -> Check:
    """The check of a graph that was captured just now."""
    _listen()
    return Check(function, graph, kind, **known)


def _metadata(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.dtype


def _text(value: Any) -> str:
    """A number as the device writes it."""
    return f"{value:g}" if isinstance(value, float) else str(value) if isinstance(value, int | str | bool) else ""


def _told(value: Any) -> str:
    """A value in words; of one that holds tensors only the type."""
    if value is ABSENT:
        return "absent"
    plain = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
    parts = [*value, *value.values()] if isinstance(value, dict) else value
    if isinstance(value, plain) or (
        isinstance(parts, list | tuple | set) and all(isinstance(part, plain) for part in parts)
    ):
        text = repr(value)
        return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}..."
    return f"a {type(value).__qualname__}"


def _of_change(change: Change, tensors: bool) -> str:
    """What changed since the capture, as the end of a sentence."""
    if change.contents:
        what = "holds something else now"
    elif tensors:
        what = "is another tensor now" if change.name else "has other memory now"
    elif change.was is ABSENT:
        what = f"was not there at the capture and is {_told(change.now)} now"
    elif change.now is ABSENT:
        what = f"was {_told(change.was)} at the capture and is gone now"
    else:
        what = f"was {_told(change.was)} at the capture and is {_told(change.now)} now"
    return f"; {change.name or 'a tensor'} {what}"
