"""A check of graphed functions (OPENHPU_CHECK_GRAPHS): each replay beside the plain call, whose effects are undone."""

import atexit
import functools
import gc
import operator
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from openhpu import _C, settings
from openhpu.capture.hpu_graphs.capture import HPUGraph
from openhpu.capture.hpu_graphs.compared import COLLECTIVES, NO_MEMORY, Site, amount, closeness, say
from openhpu.capture.hpu_graphs.parts import Whole
from openhpu.capture.hpu_graphs.undone import HostGenerators, Uncapturable, undone_capture
from openhpu.observe import events

Tensors = Sequence[torch.Tensor]
Written = list[tuple[torch.Tensor, torch.Tensor]]  # what is changed in place, and its contents after the plain call
PlainCall = Callable[[], tuple[list[torch.Tensor], Written]]

_LIBRARIES = ("torch", "builtins", "openhpu", "habana_frameworks", "numpy", "functools", "typing", "logging")
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_MOST_PARTS = 1_000_000
_HOOKS = "_hooks"
_CAUSES = {
    "number": "`{argument}` was {before} at the capture and is {after} now, and a replay uses the captured number",
    "contents": "it reads another outside tensor than at the capture, and a replay reads the captured one",
    "host": "it takes a value from the host, and a replay takes the one of the capture",
    "graph": "the function calls it now and called {before} at the capture: Python decided, and a replay does not",
    "more": "the function calls it now and did not at the capture: Python decided, and a replay does not",
    "fewer": "the function called it at the capture and does not now: Python decided, and a replay does not",
}
_OTHER = "its `{argument}` has another {cause} than at the capture: {before}, now {after}"


class _Container(NamedTuple):
    name: str
    live: Any  # a dict, list, set or cell
    kept: Any  # what it held
    some: bool = False  # of a dict only these entries count: globals that are named


class State:
    """What Python holds of a function, its closure, globals and bound object, and the tensors in it.

    `restore` gives all of it the values that it had. `too_large`: there is more than can be looked into.
    """

    def __init__(self, function: Any) -> None:
        self._containers: list[_Container] = []
        self._tensors: dict[int, tuple[torch.Tensor, int | None, torch.UntypedStorage]] = {}
        self._seen: set[int] = set()
        waiting: list[tuple[str, Any]] = [("", function)]
        for name, value in waiting:  # grows meanwhile
            if not isinstance(value, _PLAIN) and id(value) not in self._seen:
                self._seen.add(id(value))
                waiting += self._look(name, value)
            if len(waiting) > _MOST_PARTS:
                break
        self.too_large = len(waiting) > _MOST_PARTS

    def _look(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, torch.Tensor):
            if value.device.type == "hpu" and value.layout is torch.strided:
                version = None if value.is_inference() else value._version
                self._tensors[id(value)] = value, version, value.untyped_storage()
        elif isinstance(value, types.MethodType):
            yield from ((name or "self", value.__self__), (name, value.__func__))
        elif isinstance(value, functools.partial):
            yield from ((name, value.func), (name, value.args), (name, value.keywords))
        elif isinstance(value, types.FunctionType):
            yield from self._look_into_code(value)
        elif isinstance(value, dict):
            yield from self._keep(name, value, dict(value), "{}[{!r}]")
        elif isinstance(value, list | tuple | set):
            if not isinstance(value, tuple):
                self._containers.append(_Container(name, value, value.copy()))
            yield from ((f"{name}[{i}]", part) for i, part in enumerate(value))
        elif not isinstance(value, type | types.ModuleType | Whole) and hasattr(value, "__dict__"):
            module = isinstance(value, nn.Module)
            for key, part in self._keep(name, value.__dict__, dict(value.__dict__), "{}.{}"):
                if module and key.endswith(_HOOKS) and not part:
                    continue
                if module and key.endswith(("._parameters", "._buffers", "._modules")):
                    self._seen.add(id(part))
                    yield from self._keep(name, part, dict(part), "{}.{}")
                else:
                    yield key, part
            yield from ((name, f) for f in vars(type(value)).values() if isinstance(f, types.FunctionType))

    def _keep(
        self, name: str, live: Any, kept: dict[Any, Any], form: str, some: bool = False
    ) -> Iterator[tuple[str, Any]]:
        self._containers.append(_Container(name, live, kept, some))
        for key, part in kept.items():
            yield form.format(name, key), part

    def _look_into_code(self, function: types.FunctionType) -> Iterator[tuple[str, Any]]:
        if (function.__module__ or "").partition(".")[0] in _LIBRARIES:
            return
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:  # not yet assigned
                continue
            self._containers.append(_Container(name, cell, value))
            yield name, value
        names = {name: function.__globals__[name] for name in _names(function.__code__) if name in function.__globals__}
        yield from self._keep("", function.__globals__, names, "{}{}", some=True)

    @property
    def tensors(self) -> list[torch.Tensor]:
        """Those on hpu."""
        return [tensor for tensor, _, _ in self._tensors.values()]

    def written(self) -> list[torch.Tensor]:
        """The tensors that were written since, as far as PyTorch counts."""
        return [t for t, version, _ in self._tensors.values() if version is not None and t._version != version]

    def changes(self) -> Iterator[tuple[str, Any, Any]]:
        """What is not as it was: its name, what it was and what it is."""
        for name, live, kept, some in self._containers:
            if isinstance(live, types.CellType):
                yield from _changed(name, kept, live.cell_contents)
            elif isinstance(live, dict):
                dot = "" if some else "."
                for key in [*kept, *(() if some else live.keys() - kept.keys())]:
                    yield from _changed(f"{name}{dot}{key}", kept.get(key), live.get(key))
            elif isinstance(live, list):
                for i, (was, now) in enumerate(zip(kept, live, strict=False)):
                    yield from _changed(f"{name}[{i}]", was, now)
                yield from _changed(f"len({name})", len(kept), len(live))
        for tensor, _, storage in self._tensors.values():
            if tensor.untyped_storage()._cdata != storage._cdata:
                yield "", storage, tensor

    def of_now(self, function: Any) -> "State":
        """The state of the function now: this one if it is as it was."""
        if not all(map(_as_it_was, self._containers)):
            return State(function)
        for key, (tensor, version, storage) in self._tensors.items():
            self._tensors[key] = tensor, None if version is None else tensor._version, storage
        return self

    def restore(self) -> None:
        """Undo what the function did."""
        for container in self._containers:
            _, live, kept, some = container
            if _as_it_was(container):
                continue
            if isinstance(live, types.CellType):
                live.cell_contents = kept
            elif isinstance(live, list):
                live[:] = kept
            else:
                if not some:
                    live.clear()
                live.update(kept)


def _as_it_was(container: _Container) -> bool:
    """Whether it holds the same objects, in the same order."""
    _, live, kept, some = container
    if isinstance(live, types.CellType):
        return live.cell_contents is kept
    now = {key: live.get(key) for key in kept} if some else live
    if len(now) != len(kept) or not all(map(operator.is_, now, kept)):
        return False
    return not isinstance(now, dict) or all(map(operator.is_, now.values(), kept.values()))


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _changed(name: str, was: Any, now: Any) -> Iterator[tuple[str, Any, Any]]:
    if was is not now and not (type(was) is type(now) and isinstance(now, _PLAIN) and was == now):
        yield name, was, now


class _Plain(HPUGraph):
    """The plain call, recorded while it runs."""

    @staticmethod
    def _prepare() -> None:
        """The replay that is checked has done it."""


class Check:
    """The check of one captured graph of a function."""

    def __init__(self, function: Callable[..., Any], graph: HPUGraph, kind: str = "") -> None:
        self.owner = getattr(function, "__qualname__", type(function).__name__) + kind
        self._function, self._graph, self._site = function, graph, _C.current_site()
        self._state, self._now = State(function), State(function)  # at the capture, and at the last call
        self._written = [t for t in self._state.tensors if graph.writer_of(t)[0] >= 0]
        self._unchecked = COLLECTIVES if graph.describe()["collectives"] else ""
        if self._state.too_large:
            self._unchecked = "the function reaches too much for its state to be restored"
        self.plain: list[torch.Tensor] | None = None  # results of the last plain call
        self._given: dict[int, weakref.ref[torch.Tensor]] = {}  # to the script, by the last call
        self._reads = 0  # of the host, when they were given

    def run(
        self, prepare: Callable[[], PlainCall], replay: Callable[[], list[torch.Tensor]], why: str = ""
    ) -> list[torch.Tensor]:
        """The results of `replay`, compared with those of the call that `prepare` returns, which is undone.

        `why`: the reason for a difference, if it is known.
        """
        if _C.is_capturing():  # graphs do not nest, as the replay says
            return replay()
        _look()
        before, graph = self.plain, _Plain()
        self.plain, written = self._run_plain(prepare, graph, why) if not self._unchecked else (None, [])
        results = replay()
        if self.plain is None:
            if self._unchecked:
                say(self.owner, "unchecked", self._unchecked)
            return results
        self._compare(results, written, graph, why)
        self._note_held(before, results)
        return results

    def _run_plain(
        self, prepare: Callable[[], PlainCall], graph: HPUGraph, why: str
    ) -> tuple[list[torch.Tensor] | None, Written]:
        generators, state = HostGenerators(), self._now.of_now(self._function)
        self._now = state
        try:
            call = prepare()
            with undone_capture(graph, generators, compile=False):
                results, written = call()
                changed = {id(t): t for t in (*self._written, *state.written())}
                return results, [*written, *((t, t.detach().clone()) for t in changed.values())]
        except torch.OutOfMemoryError:
            say(self.owner, "unchecked", NO_MEMORY)
        except Exception as error:
            refused = isinstance(error, Uncapturable)
            what = "does now what no graph can hold" if refused else f"raises {type(error).__name__}"
            say(self.owner, "different", why or f"the plain call {what}: {error}", site=self._site)
        finally:
            generators.restore()
            state.restore()
        return None, []

    def _compare(self, results: Tensors, written: Written, graph: HPUGraph, why: str) -> None:
        plain = self.plain or []
        actual = [*results, *(tensor for tensor, _ in written)]
        expected = [*plain, *(copy for _, copy in written)]
        if [_metadata(t) for t in results] != [_metadata(t) for t in plain]:
            op, site, reason = self._reason(graph, len(written))
            say(self.owner, "different", f"the plain call returns other tensors; {reason}", op, site)
            return
        close = closeness(self._graph)
        found = [(i, a, b) for i, a, b in _C.unequal(actual, expected) if not close(a, b)]
        if not found:
            say(self.owner, "equal")
            return
        sources = [*plain, *(tensor for tensor, _ in written)]
        (_, op, site), i, a, b = min(
            ((graph.writer_of(sources[i]), i, a, b) for i, a, b in found), key=lambda one: one[0][0]
        )
        what = f"result {i}" if i < len(plain) else "a tensor that it changes"
        first_op, first_site, reason = self._reason(graph, len(written))
        text = f"{what} differs in {amount(a, b)}: {why or reason}"
        say(self.owner, "different", text, first_op or op, first_site or site)

    def _reason(self, graph: HPUGraph, copies: int) -> tuple[str, Site, str]:
        """Where the plain call begins to do something else than the graph, and why."""
        found = self._graph.difference(graph)
        changes = [*self._state.changes()]
        if found and found["cause"] == "more":
            more = graph.describe()["operators"] - self._graph.describe()["operators"]
            found = found if more > copies else None
        if not found:
            recipe = self._graph.describe()["recipe"]
            by = "its recipe computes otherwise" if recipe else "something else writes to the memory of the graph"
            return "", None, f"the plain call has the same operators and inputs, so {by}"
        cause = found["cause"]
        found |= {name: found[name].rstrip(".") for name in ("before", "after")}  # of numbers: "2."
        tensors = cause in ("contents", "size", "stride", "dtype")
        fitting = [c for c in changes if isinstance(c[2] if c[2] is not None else c[1], torch.Tensor) == tensors]
        if cause == "number":
            fitting = [c for c in fitting if _text(c[2]) == found["after"]] or fitting
        reason = _CAUSES.get(cause, _OTHER).format(**found)
        if fitting:
            name, was, now = fitting[0]
            what = f"was {was!r} at the capture and is {now!r} now"
            if tensors:
                what = "is another tensor now" if name else "has other memory now"
            reason += f"; {name or 'a tensor'} {what}"
        return found["op"], found["site"], reason

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
        self._reads = _reads

    def _note_held(self, before: list[torch.Tensor] | None, results: Tensors) -> None:
        if before is None or self._reads != _reads:
            return
        for i, reference in self._given.items():
            if reference() is not None and _C.unequal([before[i]], [(self.plain or before)[i]]):
                _, op, site = self._graph.writer_of(results[i])
                text = f"result {i} is still in use, and a later replay has overwritten it; keep a clone() of it"
                _suspects.append((reference, self.owner, text, op, site))


# Results that the script had when a replay overwrote them. If it has them later as well, it may read them.
_suspects: list[tuple[weakref.ref[torch.Tensor], str, str, str, Site]] = []
_reads = 0  # of the host


@functools.cache
def _listen() -> None:
    events.subscribe("blocking_read", _on_read)
    atexit.register(_look)


def _on_read(event: events.Event) -> None:
    global _reads
    _reads += 1
    _look()


def _look() -> None:
    """Report the suspects that the script still has."""
    if any(reference() is not None for reference, *_ in _suspects):
        gc.collect()
    suspects = _suspects.copy()
    _suspects.clear()
    for reference, owner, text, op, site in suspects:
        if reference() is not None:
            say(owner, "overwritten", text, op, site)


def check_of(function: Callable[..., Any], graph: HPUGraph, kind: str = "") -> Check | None:
    """The check of a graph that was captured just now, with OPENHPU_CHECK_GRAPHS; otherwise None."""
    if not settings.get("OPENHPU_CHECK_GRAPHS"):
        return None
    _listen()
    return Check(function, graph, kind)


def _metadata(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.dtype


def _text(value: Any) -> str:
    """A number as the device writes it."""
    return f"{value:g}" if isinstance(value, float) else str(value)
