"""Collects the work of a process on its devices, and writes it to a file at the end and at intervals before.

`openhpu run` starts it through the environment, when torch is loaded. The file is complete after every write. So a
killed process leaves its last write. SIGUSR1 asks for one more, unless the process has a handler of its own.
"""

import contextlib
import functools
import json
import os
import queue
import signal
import sys
import threading
import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

# Not at the end: classes that are made then would let Python forget that an interrupt ended the script.
from openhpu import _C
from openhpu.observe import added_sections, events, process_names
from openhpu.observe.insight import schema
from openhpu.observe.insight.captures import Captures
from openhpu.observe.insight.documents import COUNTED, changed
from openhpu.observe.insight.marks import Marks, Peaks, Timeline, choose
from openhpu.observe.insight.phases import Phases
from openhpu.observe.process_end import at_process_end
from openhpu.settings import folders

_FIRST_WRITE_S = 0.25
_LONGEST_PAUSE_S = 30.0
_DRAIN_EVERY = 16  # steps between two looks at the worker's busy times
_KEPT_TIMELINE = 2000
# Of a program that makes ever new ones; of those that were not seen for the longest only the numbers are left.
_KEPT_GRAPHS = _KEPT_RECIPES = 2000
_KEPT_ONCE = 200
_ORIGIN = ("origin", "origin_op", "origin_file", "origin_line")  # of a recompilation's size, if it is known

Key = tuple[Any, ...]


class Above(NamedTuple):
    """Functions of higher floors that the collector calls."""

    mode: Callable[[], str | None]  # eager or lazy; None: not read yet
    settle: Callable[[], None]  # waits until listeners know of every compilation so far
    compiling: Callable[[], int]  # how many graphs have no answer of the compiler


class Collector:
    """Counts events by their place in the script. Callbacks may come on any thread."""

    def __init__(self, folder: Path, above: Above | None = None) -> None:
        self._folder = folder
        self._above = above or Above(lambda: None, lambda: None, lambda: 0)
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.RLock()  # a signal handler may interrupt a callback
        self._writing = threading.RLock()  # the file; taken before `_lock`
        self._ended = False  # the complete document is written
        self._pid = os.getpid()
        self._start_ns = time.monotonic_ns()
        self._started = time.time()
        self._base = Counter(_C.counters())
        self._collectives_before = {(op, site): rest for op, site, *rest in _C.collective_times()}
        self._opened = False
        self._parts: defaultdict[str, dict[Key, dict[str, Any]]] = defaultdict(dict)  # of the document: rows
        self._graphs: OrderedDict[str, dict[str, Any]] = OrderedDict()  # by the time of their last sight
        self._graphs_ran: Counter[str] = Counter()
        self._once_gone: list[dict[str, Any]] = []  # the first that came only once and are no longer among `_graphs`
        self._recipes: OrderedDict[str, schema.SeenRecipe] = OrderedDict()
        self._compilations: deque[tuple[int, int, str]] = deque(maxlen=_KEPT_TIMELINE)  # end, microseconds, recipe
        self._captures = Captures()
        self._errors: list[schema.Error] = []
        self._phases = Phases()
        self._seen = Timeline()
        self._peaks = Peaks()
        self._writer: threading.Thread | None = None
        self._asked: queue.SimpleQueue[None] = queue.SimpleQueue()  # whose `put` a signal may interrupt

    def start(self) -> None:
        """Listen from now on, and write when the process ends, however it does."""
        self.listen()
        os.register_at_fork(after_in_child=self._begin)  # a process of its own, from zero
        at_process_end(functools.partial(self.write, complete=True))
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL:
            signal.signal(signal.SIGUSR1, lambda number, frame: self._asked.put(None))

    def listen(self) -> None:
        """Count from now on."""
        from torch.optim.optimizer import register_optimizer_step_post_hook

        handlers: dict[str, Callable[[events.Event], None]] = {
            "device_acquired": self._on_device,
            **dict.fromkeys(COUNTED, self._on_counted),
            "allocation_peak": self._on_peak,
            "graph_recorded": self._on_graph,
            "cache_miss": lambda event: self._phases.new_graph(place(event.site)),
            "graph_traced": self._on_traced,
            "hpu_graph": lambda e: self._captures.add(e.params, place(e.site), self._phases.current()),
            "graph_check": lambda event: self._captures.check(event.params, place(event.site)),
            "phase": lambda event: self._phases.begin(event.params["name"], _in_use()),
            "graph_compilation": self._on_compilation,
            "recipe_loaded": self._on_compilation,
            "recompilation": self._on_recompilation,
            "error": self._on_error,
            "mark_step": lambda event: self._mark("mark_step", event.time_ns),
        }
        for kind, handler in handlers.items():
            events.subscribe(kind, self._alone(handler))
        mark = self._alone(self._mark)
        register_optimizer_step_post_hook(
            lambda optimizer, *_: mark(f"optimizer {id(optimizer):x}", time.monotonic_ns())
        )
        if _C.is_initialized():
            self._opened = True
            self._watch_spans()

    def _alone(self, handler: Callable[..., None]) -> Callable[..., None]:
        """The handler, one at a time with the others."""

        def handle(*arguments: Any) -> None:
            with self._lock:
                handler(*arguments)

        return handle

    # Events

    def _on_device(self, event: events.Event) -> None:
        self._opened = True
        self._watch_spans()
        self._writer = threading.Thread(target=self._write_now_and_then, name="openhpu-insight", daemon=True)
        self._writer.start()

    def _row(self, part: str, site: events.Site | None, keys: dict[str, Any]) -> dict[str, Any]:
        """The row of a line in a part of the document."""
        return self._parts[part].setdefault((site, *keys.values()), {**keys, **place(site), "count": 0})

    def _on_counted(self, event: events.Event) -> None:
        counted = COUNTED[event.kind]
        keys = {name: event.params[name] for name in counted.keys}
        if "wait_ns" in counted.sums and (phase := self._phases.named()):
            keys["phase"] = phase
        row = self._row(counted.part, event.site, keys)
        row["count"] += event.params[counted.number] if counted.number else 1
        for name in counted.sums:
            row[name] = row.get(name, 0) + event.params[name]

    def _on_peak(self, event: events.Event) -> None:
        steps = max((marks.count for marks in self._seen.marks.values()), default=0)
        self._peaks.add(event.params["device"], event.params["bytes"], event.site, event.time_ns, steps)

    def _on_graph(self, event: events.Event) -> None:
        params = event.params
        new = {"operators": params["operators"], "site": event.site, "whole": 0}  # how often it came uncut
        graph = self._graphs.setdefault(params["recipe_id"], new)
        self._graphs.move_to_end(params["recipe_id"])
        self._graphs_ran[params["ran"]] += 1
        if params["ran"] != "cut":
            graph["whole"] += 1
        if params["recipe"]:
            self._recipe(params["recipe"])["runs"] += 1
        if len(self._graphs) > _KEPT_GRAPHS:
            _, gone = self._graphs.popitem(last=False)
            if gone["whole"] == 1 and len(self._once_gone) < _KEPT_ONCE:
                self._once_gone.append(gone)

    def _on_traced(self, event: events.Event) -> None:
        if not event.params["recompiled"]:
            self._phases.cause = None  # an earlier one, of a graph that was there
        self._phases.new_graph(place(event.site))

    def _recipe(self, name: str) -> schema.SeenRecipe:
        new: schema.SeenRecipe = {
            "name": name,
            "ops": {},
            "from_disk": False,
            "compilations": 0,
            "ms": 0.0,
            "runs": 0,
        }
        row = self._recipes.setdefault(name, new)
        self._recipes.move_to_end(name)
        if len(self._recipes) > _KEPT_RECIPES:
            self._recipes.popitem(last=False)
        return row

    def _on_compilation(self, event: events.Event) -> None:
        name, duration_us = event.params["recipe"], event.params["duration"]
        row = self._recipe(name)
        row["ops"] = event.params["ops"]
        row["from_disk"] = event.kind == "recipe_loaded"
        row["ms"] += duration_us / 1e3
        if not row["from_disk"]:
            row["compilations"] += 1
            self._phases.recipe()
            self._compilations.append((event.time_ns, duration_us, name))

    def _on_recompilation(self, event: events.Event) -> None:
        self._phases.cause = params = changed(event.params)
        # What tells recompilations of a line apart.
        keys = {
            "cause": params["cause"],
            "op": params["op"],
            "argument": params["argument"],
            "dimension": params["dimension"],
        }
        row = self._row("recompilations", event.site, keys)
        row["count"] += 1
        row.setdefault("before", params["before"])
        after = row.setdefault("after", [])
        row |= {name: event.params[name] for name in _ORIGIN if name in event.params}
        if params["after"][0] not in after and len(after) < 20:
            after += params["after"]

    def _on_error(self, event: events.Event) -> None:
        if len(self._errors) < 100:
            self._errors.append({"op": event.params["op"], "message": event.params["message"], **place(event.site)})

    def _mark(self, source: str, time_ns: int) -> None:
        """The end of a step, as an optimizer or the script's mark_step sees it."""
        if not self._opened:
            return
        self._phases.step(source)
        marks = self._seen.marks[source]
        sample = _C.device_sample(0)
        marks.add(time_ns, _C.counters()["host_wait_ns"], sample[0] if sample else 0)
        if marks.count % _DRAIN_EVERY == 0:
            self._take_spans()

    # The work of the devices' workers

    def _watch_spans(self) -> None:
        for index in range(_C.device_count()):
            _C.record_busy_spans(index, True)

    def _take_spans(self) -> None:
        self._watch_spans()  # a device may have been opened since
        taken = [span for index in range(_C.device_count()) for span in _C.take_busy_spans(index)]
        self._seen.add_spans(taken)

    # Writing

    def _write_now_and_then(self) -> None:
        pause = _FIRST_WRITE_S
        pid = os.getpid()
        while pid == self._pid:
            with contextlib.suppress(queue.Empty):
                self._asked.get(timeout=pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
            self.write()

    def write(self, complete: bool = False) -> None:
        """Write the document, if this process has opened a device. An incomplete one never replaces a complete one."""
        if not self._opened:
            return
        if complete and not _C.is_in_bad_fork():
            _C.report_kernels()  # for commands that the script did not wait for
        if complete:
            self._above.settle()  # without the lock, which the listeners below want
        with self._writing:
            if self._ended and not complete:
                return
            with self._lock:
                document = self.document(complete)
            try:
                with folders.replacing(self._folder / f"{self._pid}.json") as file:
                    file.write(json.dumps(document))
            except OSError as error:
                folders.tell("the data of the report", error)
            self._ended = complete

    def document(self, complete: bool) -> schema.Document:
        """All that was seen so far."""
        now = time.monotonic_ns()
        if self._opened and not _C.is_in_bad_fork():
            self._take_spans()
        source, marks = choose(self._seen.marks)
        counters = {name: value - self._base.get(name, 0) for name, value in _C.counters().items()}
        waits = self._rows("waits")
        return {
            "format": schema.FORMAT,
            "complete": complete,
            "process": self._process(now),
            "steps": {"counted_by": source, **marks.summary(self._seen.spans)},
            "timeline": self._timeline(marks),
            "graphs": self._graph_rows(),
            "phases": self._phases.document(_in_use() if self._opened and not _C.is_in_bad_fork() else 0),
            **self._captures.document(),
            "recipes": self._recipe_rows(),
            "recompilations": self._copies("recompilations"),
            "fallbacks": self._rows("fallbacks"),
            "indices_out_of_range": self._rows("indices_out_of_range"),
            "int64_overflows": self._rows("int64_overflows"),
            "differences": self._rows("differences"),
            "moved_operands": self._rows("moved_operands"),
            "not_run": self._rows("not_run"),
            "blocking_reads": self._rows("blocking_reads"),
            "shape_waits": [row for row in waits if row["kind"] == "shape"],
            "own_waits": [row for row in waits if row["kind"] != "shape"],
            "collectives": self._collectives(),
            "user_operators": _user_operators(),
            "memory": self._memory(marks),
            "errors": self._errors,
            "counters": counters,
            "sections": added_sections.documents(complete),
        }

    def _copies(self, part: str) -> list[Any]:
        """The rows of this part."""
        return [dict(row) for row in self._parts[part].values()]

    def _rows(self, part: schema.Part) -> list[Any]:
        """The rows of this part, the most frequent first."""
        return sorted(self._copies(part), key=lambda row: -row["count"])

    def _collectives(self) -> list[schema.Collective]:
        rows: list[schema.Collective] = []
        for op, site, *numbers in _C.collective_times():
            before = self._collectives_before.get((op, site), [0, 0, 0])
            count, size, wait_ns = (now - then for now, then in zip(numbers, before, strict=True))
            if count:
                rows.append({"op": op, **place(site), "count": count, "bytes": size, "wait_ns": wait_ns})
        return sorted(rows, key=lambda row: -row["wait_ns"])

    def _process(self, now: int) -> schema.Process:
        import torch

        import openhpu
        from openhpu import settings

        return {
            "pid": self._pid,
            "parent": os.getppid(),
            "rank": process_names.rank(),
            "command": _command(),
            "mode": self._above.mode(),
            "generation": settings.get("OPENHPU_GENERATION"),
            "started": self._started,
            "seconds": (now - self._start_ns) / 1e9,
            "openhpu": openhpu.__version__,
            "torch": torch.__version__,
        }

    def _since_start_us(self, time_ns: int) -> int:
        return (time_ns - self._start_ns) // 1000

    def _timeline(self, marks: Marks) -> schema.Times:
        us = self._since_start_us
        return {
            "steps_us": [us(t) for t, _, _ in marks.ends[-_KEPT_TIMELINE:]],
            "device_us": [[us(a), us(b)] for a, b in sorted(self._seen.spans)[-_KEPT_TIMELINE:]],
            "compilations_us": [
                [us(end_ns) - duration_us, us(end_ns), name] for end_ns, duration_us, name in self._compilations
            ],
        }

    def _graph_rows(self) -> schema.Graphs:
        ran = self._graphs_ran
        once = [*self._once_gone, *(graph for graph in self._graphs.values() if graph["whole"] == 1)]
        return {
            "distinct": self._phases.graphs(),
            "recorded": ran.total(),
            "as_recipes": ran["recipe"],
            "node_by_node": ran["node by node"],
            "cut": ran["cut"],
            "compiling": self._above.compiling(),
            "seen_once": [{"operators": graph["operators"], **place(graph["site"])} for graph in once[:_KEPT_ONCE]],
        }

    def _recipe_rows(self) -> list[schema.Recipe]:
        # Of one without operators only runs were seen: it was made before this began.
        rows: list[schema.Recipe] = [
            {**row, "operators": sum(row["ops"].values())} for row in self._recipes.values() if row["ops"]
        ]
        return sorted(rows, key=lambda row: -row["runs"])

    def _memory(self, marks: Marks) -> schema.Memory:
        sample = _C.device_sample(0) if self._opened and not _C.is_in_bad_fork() else None
        site, growth = self._peaks.line()
        peak = place(site)
        over_time = sorted([*((t, used) for t, _, used in marks.ends), *self._peaks.over_time()])
        return {
            "peak_bytes": self._peaks.highest(),
            "peak_file": peak["file"],
            "peak_line": peak["line"],
            "peak_growth_bytes": growth,
            "limit_bytes": sample[2] if sample else 0,
            "in_use_bytes": sample[0] if sample else 0,
            "over_time": [[self._since_start_us(t), size] for t, size in over_time[-_KEPT_TIMELINE:]],
        }


def _user_operators() -> list[schema.UserOperator]:
    """Those that were called."""
    return [
        {name: row[name] for name in ("schema", "guid", "kernel", "python", "calls")}  # type: ignore[misc]
        for row in _C.user_operators()
        if row["calls"] and row["kernel"]
    ]


def _in_use() -> int:
    """Bytes on all devices of this process."""
    samples = (_C.device_sample(index) for index in range(_C.device_count()))
    return sum(sample[0] for sample in samples if sample)


def place(site: events.Site | None) -> schema.Place:
    """A line of the script, as fields of a record."""
    return {"file": site[0], "line": site[1]} if site else {"file": None, "line": None}


def _command() -> str:
    """The script and its arguments. Python makes the path of a module absolute; here it is relative to the folder."""
    script, *arguments = sys.argv or ["python"]
    with contextlib.suppress(ValueError, OSError):
        script = str(Path(script).relative_to(Path.cwd()))
    return " ".join([script or "python", *arguments])


def start(folder: str, above: Above) -> None:
    """Collect in this process; `folder` must exist. Called once."""
    Collector(Path(folder), above).start()
