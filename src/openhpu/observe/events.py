"""The one in-process source of events and counters, seen from Python.

The core reports these events:

- `cpu_fallback`, `blocking_read`, `allocation_peak`, `copy` and `error`;
- `indices_out_of_range`: an operator and line, their number `indices`, and the number `padding` of these that are -1.
  It is reported when the host waits for the device;
- `wait`: the host waited, though it read no value. `kind` is `shape` (the sizes of an operator's results depend on
  values) or, of this device alone, `first_sight` (the operator ran for the first time, so that the host learned the
  sizes) or `queue` (the host was too far ahead). `op` is the operator or command, `wait_ns` the time;
- `int64_overflow` (with OPENHPU_INT64), in the same way: `overflows` is the number of elements that wrapped;
- `difference`: the script did what a Gaudi refuses or computes otherwise. `kind` is one of
  `openhpu.observe.differences`, which also publishes it, and `detail` says more;
- `not_run` (with PT_COMPILE_ONLY_MODE): what a script sees of operators that did not run. `what` is `write` (`op` would
  have changed memory that is older than the mode), `read` (the host read by `op` what nothing had computed), or `kept`
  (at the end of the mode: memory that a line made lives on without contents). `bytes` is the memory's size;
- of lazy mode `graph_recorded` (a graph was handed to the device, and how it ran), `cache_hit` and `cache_miss`
  (whether a step was seen before), `recompilation`, and `operand_moved` (an operand on the CPU was moved to the
  device). A `recompilation` by a size that an operator with a `shape` wait returned names this operator: `origin` is
  `from` if the operand has its sizes from it, `after` if it was the last one before the graph, and `origin_op`,
  `origin_file` and `origin_line` say which.

Python code publishes `device_acquired`, `mark_step`, `phase`, `process_exit`, `graph_compilation`, `recipe_loaded`
(from disk), and of torch.compile `graph_traced` (a new graph), before which comes a `recompilation` if a guard failed.
The `duration` of a compilation is the time in us since the request, and `phases` has that of each phase
(`openhpu.compiler.compile_phases`).
A callback runs on the thread on which the event happened. The core sends an event only while there is a listener for
one of its kinds. Otherwise an event costs nothing.
"""

import atexit
import contextlib
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

# Kinds that the compiled core reports.
CORE_KINDS = frozenset(
    {
        "cpu_fallback",
        "blocking_read",
        "allocation_peak",
        "copy",
        "error",
        "recompilation",
        "graph_recorded",
        "cache_hit",
        "cache_miss",
        "indices_out_of_range",
        "operand_moved",
        "int64_overflow",
        "wait",
        "difference",
        "not_run",
    }
)

Site: TypeAlias = tuple[str, int]


class Event(NamedTuple):
    """One event: `kind` and `params`, its time (`time_ns`, as time.monotonic_ns()), and its file and line or None."""

    kind: str
    time_ns: int
    site: Site | None
    params: dict[str, Any]


Callback: TypeAlias = Callable[[Event], None]


class Subscription:
    """The handle that `subscribe` returns."""

    def __init__(self, kind: str | None, callback: Callback) -> None:
        self.kind = kind
        self.callback = callback


_lock = threading.Lock()
_of_thread = threading.local()
_subscriptions: tuple[Subscription, ...] = ()  # replaced, never changed: read without the lock
_wanted: frozenset[str | None] = frozenset()  # the kinds of the subscriptions, None for every kind
_asked_kinds: frozenset[str | None] = frozenset()
# What the core, which only adds, had counted at the last `reset_counters`.
_counters_before: Counter[str] = Counter()
_fallbacks_before: Counter[str] = Counter()


def subscribe(kind: str | None, callback: Callback) -> Subscription:
    """Call `callback(event)` for each event of `kind` (None: of every kind) until `unsubscribe`."""
    global _subscriptions
    if kind is None or kind in CORE_KINDS:
        _core()
    subscription = Subscription(kind, callback)
    with _lock:
        _subscriptions = (*_subscriptions, subscription)
        _ask_core()
    return subscription


def unsubscribe(subscription: Subscription) -> None:
    """Stop a subscription. Does nothing if it has been stopped."""
    global _subscriptions
    with _lock:
        _subscriptions = tuple(other for other in _subscriptions if other is not subscription)
        _ask_core()


def wanted(kind: str) -> bool:
    """Whether anybody listens for this kind."""
    return kind in _wanted or None in _wanted


def publish(
    kind: str, params: dict[str, Any] | None = None, site: Site | None = None, time_ns: int | None = None
) -> None:
    """Report an event from Python, of now if `time_ns` is None."""
    if wanted(kind):
        _dispatch(Event(kind, time.monotonic_ns() if time_ns is None else time_ns, site, params or {}))


@contextlib.contextmanager
def work(name: Callable[[], str]) -> Iterator[None]:
    """Within it this thread works on `name()`, which listeners may ask for. It is called only if one does."""
    before, _of_thread.work = getattr(_of_thread, "work", None), name
    try:
        yield
    finally:
        _of_thread.work = before


def current_work() -> str:
    """What this thread works on; empty if nobody said."""
    name = getattr(_of_thread, "work", None)
    return name() if name is not None else ""


def phase(name: str) -> None:
    """Begin a part of the script, as `serving`: reports then list its compilations, and the warm-up is over.

    TypeError if `name` is not a string, ValueError if it is empty. Costs nothing where nobody listens.
    """
    if not isinstance(name, str):
        raise TypeError(f"openhpu.phase: expected a name, got {name!r}")
    if not name.strip():
        raise ValueError("openhpu.phase: expected a name, got an empty one")
    publish("phase", {"name": name.strip()})


def counters() -> dict[str, int]:
    """The core's counters since the start of the process or the last `reset_counters`, by name.

    Beside these, of what the compiler has been asked for and has not answered, as it is now: `graphs_compiling`, how
    many; `graphs_compiling_ops`, the operators of the largest; `graphs_compiling_ms`, for how long it has been at it.
    """
    core = _core()
    names = "graphs_compiling", "graphs_compiling_ops", "graphs_compiling_ms"
    progress = dict(zip(names, core.compile_progress(), strict=True))
    return {name: value - _counters_before[name] for name, value in core.counters().items()} | progress


def fallback_ops() -> dict[str, int]:
    """How often each operator fell back to the CPU since the start or the last `reset_counters`."""
    return dict(Counter(_core().fallback_ops()) - _fallbacks_before)


def reset_counters() -> None:
    """Set every counter to zero. Metrics keep their values."""
    global _counters_before, _fallbacks_before
    _counters_before, _fallbacks_before = Counter(_core().counters()), Counter(_core().fallback_ops())


def _core() -> Any:
    """The core. Loading it may import torch, and so openhpu's own subscriptions: never load it under the lock."""
    from openhpu import _C

    return _C


def _ask_core() -> None:
    """Tell the core which of its events have listeners. The caller holds the lock."""
    global _asked_kinds, _wanted
    _wanted = frozenset(subscription.kind for subscription in _subscriptions)
    kinds = CORE_KINDS if None in _wanted else CORE_KINDS & _wanted
    if kinds != _asked_kinds:
        _core().set_event_listener((lambda *event: _dispatch(Event(*event))) if kinds else None, sorted(kinds))
        _asked_kinds = kinds


def _dispatch(event: Event) -> None:
    """Call the subscribers. An exception of a callback is printed. It stops neither the others nor the operator."""
    for subscription in _subscriptions:
        if subscription.kind is None or subscription.kind == event.kind:
            try:
                subscription.callback(event)
            except Exception:
                traceback.print_exc()


atexit.register(publish, "process_exit")
