"""Traces as files that Perfetto, chrome://tracing and PyTorch's readers open: one JSON document of events.

They are written as kineto writes them, so that the trace of a whole process and that of torch.profiler look alike.
Times are in microseconds from `baseTimeNanoseconds`. The host's threads are under the number of the process. Each
device is under its index, with a track for each stream. An arrow (`ac2g`) goes from the call that issued a command to
the command.
"""

import itertools
import json
import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from openhpu.observe.profiler.reading import Event
from openhpu.settings import folders

COMPILER_TRACK = 0x7FFFFFFE
COLLECTIVE_STREAM = 1000
_BEHIND_HOST = 5_000_000  # process numbers are lower: devices come after the host's rows

# By the kind of a command: its category, as readers of traces know it, the call that issues it, and a copy's name.
_KINDS = {
    "kernel": ("kernel", "hpuLaunchKernel", ""),
    "graph": ("kernel", "hpuLaunchGraph", ""),
    "collective": ("kernel", "hpuLaunchCollective", ""),
    "wait": ("cuda_sync", "hpuStreamWait", ""),
    "h2d": ("gpu_memcpy", "hpuMemcpyAsync", "Memcpy HtoD"),
    "d2h": ("gpu_memcpy", "hpuMemcpyAsync", "Memcpy DtoH"),
    "d2d": ("gpu_memcpy", "hpuMemcpyAsync", "Memcpy DtoD"),
}


class Command(NamedTuple):
    """A command of a device, as `_C.trace_stop` gives it; times in nanoseconds since 1970."""

    name: str
    kind: str
    device: int
    stream: int
    number: int
    bytes: int
    operators: int
    thread: int
    launch_begin: int
    launch_end: int
    begin: int
    end: int
    line: str | None
    parts: list[tuple[str, int, int, str | None]]


class Span(NamedTuple):
    """The work of a host thread, or of the compiler (thread -1), for the device."""

    name: str
    detail: str
    thread: int
    begin: int
    end: int
    line: str | None


class Recorded(NamedTuple):
    """The result of `_C.trace_stop`."""

    commands: list[Command]
    spans: list[Span]
    dropped: int
    begin: int
    end: int

    @classmethod
    def of(cls, stopped: tuple[Any, ...]) -> Self:
        """From the core's tuples, put in order."""
        found, spans, dropped, begin, end = stopped
        commands = sorted((Command(*c) for c in found), key=lambda c: c.begin)
        # Collectives, which run beside their device's queue, are on a track of their own.
        commands = [c._replace(stream=COLLECTIVE_STREAM) if c.kind == "collective" else c for c in commands]
        return cls(commands, [Span(*s) for s in spans], dropped, begin, end)


def write(path: Path, recorded: Recorded, title: str, rank: int | None = None, more: Sequence[Any] = ()) -> None:
    """Write a trace. What is at `path` is replaced when all is written; raises OSError, and leaves no part of a file.

    `title` names the process; `rank` is put into the document (distributedInfo); `more` are further events.
    """
    head: dict[str, Any] = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": index, "name": "hpu"} for index in sorted({c.device for c in recorded.commands})],
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": recorded.begin,
        "host_name": socket.gethostname(),
        "traceName": path.name,
    }
    if rank is not None:
        size = int(os.environ.get("WORLD_SIZE", "1"))
        head["distributedInfo"] = {"backend": "hccl", "rank": rank, "world_size": size}
    if recorded.dropped:
        head["hpu_dropped"] = recorded.dropped
    with folders.replacing(path) as file:
        file.write(json.dumps(head)[:-1] + ', "traceEvents": [')
        for number, event in enumerate(itertools.chain(_tracks(recorded, title), _events(recorded), more)):
            file.write(("," if number else "") + "\n" + json.dumps(event))
        file.write("\n]}\n")


def _tracks(recorded: Recorded, title: str) -> Iterator[Event]:
    pid = os.getpid()

    def meta(kind: str, process: int, thread: int, **values: Any) -> Event:
        return {"ph": "M", "name": kind, "pid": process, "tid": thread, "ts": 0, "args": values}

    yield meta("process_name", pid, 0, name=title)
    yield meta("process_labels", pid, 0, labels="CPU")
    yield meta("process_sort_index", pid, 0, sort_index=pid)
    for thread in sorted({c.thread for c in recorded.commands} | {s.thread for s in recorded.spans if s.thread >= 0}):
        yield meta("thread_name", pid, thread, name=f"thread {thread}")
    if any(s.thread < 0 for s in recorded.spans):
        yield meta("thread_name", pid, COMPILER_TRACK, name="hpu compiler")
    for device in sorted({c.device for c in recorded.commands}):
        yield meta("process_name", device, 0, name=f"HPU {device}")
        yield meta("process_labels", device, 0, labels=f"HPU {device}")
        yield meta("process_sort_index", device, 0, sort_index=_BEHIND_HOST + device)
    for device, stream in sorted({(c.device, c.stream) for c in recorded.commands}):
        name = "collectives" if stream == COLLECTIVE_STREAM else f"stream {stream}"
        yield meta("thread_name", device, stream, name=name)


class _Track(NamedTuple):
    """What a viewer draws as one line: a thread of a process, or a stream of a device. `origin`: time 0, in ns."""

    process: int
    thread: int
    origin: int

    def at(self, nanoseconds: int) -> Event:
        """A place on it."""
        return {"pid": self.process, "tid": self.thread, "ts": (nanoseconds - self.origin) / 1000}

    def span(self, category: str, name: str, begin: int, end: int, **known: Any) -> Event:
        return {
            "ph": "X",
            "cat": category,
            "name": name,
            **self.at(begin),
            "dur": max(end - begin, 0) / 1000,
            "args": {key: one for key, one in known.items() if one is not None},
        }


def _events(recorded: Recorded) -> Iterator[Event]:
    yield from _commands(recorded)
    pid, compiled = os.getpid(), 0
    for s in sorted(recorded.spans, key=lambda s: s.end):
        begin, thread = s.begin, s.thread
        if thread < 0:  # the compiler does one thing at a time
            begin = max(begin, compiled)
            thread = COMPILER_TRACK
            compiled = s.end
        yield _Track(pid, thread, recorded.begin).span("cuda_runtime", s.name, begin, s.end, detail=s.detail)


def _commands(recorded: Recorded) -> Iterator[Event]:
    """Each command: its submission, its time on the device, an arrow between them, and its parts."""
    pid = os.getpid()
    last: dict[tuple[int, int], int] = {}
    for c in recorded.commands:
        # A clock that was set back must not make events of a track cross.
        begin = max(c.begin, c.launch_begin, last.get((c.device, c.stream), 0))
        end = last[c.device, c.stream] = max(c.end, begin)
        category, launch, copy = _KINDS[c.kind]
        shown, line = copy or c.name, c.line or None
        arrow = {"id": c.number, "cat": "ac2g", "name": "ac2g"}
        host = _Track(pid, c.thread, recorded.begin)
        stream = _Track(c.device, c.stream, recorded.begin)
        yield host.span(
            "cuda_runtime", launch, c.launch_begin, c.launch_end, correlation=c.number, command=shown, line=line
        )
        yield {"ph": "s", **arrow, **host.at(c.launch_begin)}
        yield stream.span(
            category,
            shown,
            begin,
            end,
            device=c.device,
            context=0,
            stream=c.stream,
            correlation=c.number,
            bytes=c.bytes or None,
            operators=c.operators or None,
            line=line,
        )
        yield {"ph": "f", "bp": "e", **arrow, **stream.at(begin)}
        for name, first, second, where in c.parts:
            first = min(max(first, begin), end)
            known = {"part of": shown, "line": where or None}
            yield stream.span("hpu_op", name, first, min(max(second, first), end), **known)
