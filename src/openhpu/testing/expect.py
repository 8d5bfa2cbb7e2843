"""`openhpu.expect`: asserts what a part of a script does not do. The error names operator, line and cause."""

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from openhpu.integration import vllm
from openhpu.observe import events
from openhpu.observe.insight.documents import changed
from openhpu.observe.insight.sentences import fallback, plural, recompilation, shortened


class ExpectationError(AssertionError):
    """A part of a script did something on the device that `openhpu.expect` excludes."""


@dataclass(frozen=True, kw_only=True)
class Expectations:
    """What a part of a script is expected not to do. TypeError or ValueError, with the name, for wrong ones."""

    no_fallback: bool = False
    no_compilation: bool = False
    no_waits: bool = False
    no_new_graphs: bool = False
    max_graphs: int | None = None
    max_memory: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("max_graphs", self.max_graphs), ("max_memory", self.max_memory)):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
                raise TypeError(f"{name}: expected an integer, got {value!r}")
            if value is not None and value < 0:
                raise ValueError(f"{name}: expected 0 or more, got {value}")


class Steps(NamedTuple):
    """Ends of steps, as a script tells them."""

    marks: int  # mark_step
    optimizer: int

    def within(self, warm_up: int, all_steps: "Steps") -> bool:
        """Whether fewer than `warm_up` steps had ended, in a part of a script that had `all_steps` together: where it
        has several mark_steps for each step of its optimizer, these are one."""
        if not all_steps.marks:
            return self.optimizer < warm_up
        each = max(1, round(all_steps.marks / all_steps.optimizer)) if all_steps.optimizer else 1
        return self.marks < warm_up * each


class Record:
    """The work of a part of a script on the devices of this process, by operator and line, from `begin` to `end`.

    It listens to events, so that it costs nothing before and after. A forked child does not add to it.
    """

    def __init__(self) -> None:
        self._subscriptions: list[Any] = []
        self._clear()

    def _clear(self) -> None:
        self.fallbacks: Counter[tuple[str, str]] = Counter()  # operator with dtype, line
        self.waits: Counter[tuple[str, str]] = Counter()  # for values: operator, line
        self.shape_waits: Counter[tuple[str, str]] = Counter()  # for sizes that depend on values
        self.own_waits: Counter[tuple[str, str]] = Counter()  # that a Gaudi does not have; these violate nothing
        self.graphs: list[tuple[Steps, str]] = []  # that were new: steps before, the line of the first operator
        self.recompilations: list[tuple[Steps, str]] = []  # steps before, the change
        self.recipes = 0  # that the compiler delivered
        self.steps = Steps(0, 0)
        self.peak_bytes = 0

    def begin(self) -> None:
        """Count from now on. What the device still has to do of earlier work is waited for, and counts no more."""
        self._pid = os.getpid()
        if hpu := _device():
            hpu.synchronize()
            hpu.reset_peak_memory_stats()
        vllm.name_calls()
        self._clear()
        if not self._subscriptions:
            self._listen()

    def _listen(self) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        handlers = {
            "cpu_fallback": self._on_fallback,
            "blocking_read": self._on_wait,
            "wait": self._on_wait,
            "cache_miss": self._on_graph,
            "graph_traced": self._on_graph,
            "recompilation": self._on_recompilation,
            "graph_compilation": self._on_recipe,
            "mark_step": self._on_step,
        }
        self._subscriptions = [events.subscribe(kind, self._own(handler)) for kind, handler in handlers.items()]
        self._hook = register_optimizer_step_post_hook(self._on_optimizer)

    def pause(self) -> None:
        """Wait for what was issued. What comes until the next `begin` counts no more after it."""
        if os.getpid() == self._pid and (hpu := _device()):
            with contextlib.suppress(Exception):  # an error of the part itself is raised there
                hpu.synchronize()
            self.peak_bytes = hpu.max_memory_allocated()

    def end(self) -> None:
        """Wait for what was issued, and listen no more."""
        self.pause()
        for subscription in self._subscriptions:
            events.unsubscribe(subscription)
        self._subscriptions = []
        self._hook.remove()

    def violations(self, wanted: Expectations, after_steps: int = 0) -> list[str]:
        """A line for each thing that happened and was excluded."""
        found: list[str] = []
        if wanted.no_fallback:
            found += _listed("ran on the CPU", self.fallbacks)
        if wanted.no_waits:
            found += _listed("waited for the device", self.waits)
            found += _listed("waited for the device, since its sizes depend on values,", self.shape_waits)
        if wanted.no_compilation or wanted.no_new_graphs:

            def is_late(steps: Steps) -> bool:
                return not steps.within(after_steps, self.steps)

            later = [f"a new graph, which begins at {line}" for steps, line in self.graphs if is_late(steps)]
            later += [f"a recompilation: {what}" for steps, what in self.recompilations if is_late(steps)]
            since = f" after {plural(after_steps, 'step')}" if after_steps else ""
            found += [f"compiled{since}: {one}" for one in shortened(later)]
        if wanted.max_graphs is not None and len(self.graphs) > wanted.max_graphs:
            lines = "".join(f"\n    begins at {line}" for line in shortened([line for _, line in self.graphs]))
            found.append(f"{plural(len(self.graphs), 'new graph')}, expected at most {wanted.max_graphs}:{lines}")
        if wanted.max_memory is not None and self.peak_bytes > wanted.max_memory:
            found.append(f"the device's memory reached {self.peak_bytes} bytes, expected at most {wanted.max_memory}")
        return found

    def row(self) -> dict[str, Any]:
        """All of it as JSON holds it."""
        return {
            "graphs": len(self.graphs),
            "recipes": self.recipes,
            "recompilations": [what for _, what in self.recompilations],
            "fallbacks": _rows(self.fallbacks),
            "waits": _rows(self.waits + self.shape_waits),
            "own_waits": _rows(self.own_waits),
            "peak_bytes": self.peak_bytes,
        }

    def _own(self, handler: Callable[[Any], None]) -> Callable[[Any], None]:
        """The handler, in this process alone."""
        return lambda event: handler(event) if os.getpid() == self._pid else None

    def _on_fallback(self, event: Any) -> None:
        self.fallbacks[fallback(event.params), _line(event.site)] += 1

    def _on_wait(self, event: Any) -> None:
        kind = event.params.get("kind", "read")
        counted = {"read": self.waits, "shape": self.shape_waits}.get(kind, self.own_waits)
        counted[event.params["op"], _line(event.site)] += 1

    def _on_graph(self, event: Any) -> None:
        self.graphs.append((self.steps, f"{_line(event.site)}{_while()}"))

    def _on_recompilation(self, event: Any) -> None:
        what = recompilation(changed(event.params))
        self.recompilations.append((self.steps, f"{what}, at {_line(event.site)}{_while()}"))

    def _on_recipe(self, event: Any) -> None:
        self.recipes += 1

    def _on_step(self, event: Any) -> None:
        self.steps = self.steps._replace(marks=self.steps.marks + 1)

    def _on_optimizer(self, *_: Any) -> None:
        if os.getpid() == self._pid:
            self.steps = self.steps._replace(optimizer=self.steps.optimizer + 1)


@contextlib.contextmanager
def expect(**expectations: Any) -> Iterator[Record]:
    """Raise ExpectationError at the end of the with block if it did something on hpu that is excluded.

    `no_fallback`: no operator ran on the CPU. `no_compilation`: no graph was seen for the first time and none was
    recompiled. `no_new_graphs`: the same, in the words of a server: where vLLM serves, the message also names the
    bucket and the requests. `no_waits`: no value was read on the host, and no operator waited for sizes that depend on
    values.
    `max_graphs`: at most so many new graphs. `max_memory`: at most so many bytes of device memory at once; the peak
    statistics of the devices begin anew. The message names operator, line and cause. An error of the block itself is
    raised as it is. TypeError and ValueError for wrong arguments.
    """
    wanted = Expectations(**expectations)
    record = Record()
    record.begin()
    try:
        yield record
    finally:
        record.end()
    if found := record.violations(wanted):
        raise ExpectationError("openhpu.expect:\n  " + "\n  ".join(found))


def _listed(what: str, counted: Counter[tuple[str, str]]) -> list[str]:
    return shortened([f"{op} {what} at {line}, {plural(n, 'time')}" for (op, line), n in counted.most_common()])


def _rows(counted: Counter[tuple[str, str]]) -> list[dict[str, Any]]:
    return [{"op": op, "line": line, "count": n} for (op, line), n in counted.most_common()]


def _line(site: tuple[str, int] | None) -> str:
    return f"{site[0]}:{site[1]}" if site else "a line that is not known"


def _while() -> str:
    """What this thread works on, if it said so."""
    work = events.current_work()
    return f", while {work}" if work else ""


def _device() -> Any:
    """torch.hpu, if a device is open."""
    from openhpu.interface import hpu

    return hpu if hpu.is_initialized() else None
