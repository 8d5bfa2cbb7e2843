"""Runs each candidate of a plan in a process of its own, forked from one that has imported vLLM."""

import contextlib
import multiprocessing
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Hashable, Sequence
from multiprocessing import connection
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

_SECONDS = 900.0  # for a candidate
_POLL_SECONDS = 5.0

Job = TypeVar("Job")
# Serves a candidate, given what others with the same key found out. Returns its result, and what it found out.
Serve = Callable[[Any, dict[Any, Any]], tuple[Any, dict[Any, Any]]]


class Failed(NamedTuple):
    """A candidate that ended without a result."""

    why: str


class _Running(NamedTuple):
    number: int
    process: Any
    until: float


def run(
    jobs: Sequence[Job],
    key: Callable[[Job], Hashable],
    serve: Serve,
    at_once: int,
    ended: Callable[[Job, Any], None],
    seconds: float = _SECONDS,
) -> list[Any]:
    """The results of `serve` for all jobs, in their order; a Failed for one that failed, died, or took too long.

    `at_once`: processes. `ended` is told each result. A process of an earlier job gives what it found out to later ones
    of the same `key`.
    """
    fork = multiprocessing.get_context("fork")
    shared: dict[Hashable, dict[Any, Any]] = {}
    results: list[Any] = [None] * len(jobs)
    running: list[_Running] = []
    waiting = list(range(len(jobs)))
    with tempfile.TemporaryDirectory(prefix="openhpu-plan-") as folder, contextlib.ExitStack() as stack:
        stack.callback(_stop_all, running)
        while waiting or running:
            while waiting and len(running) < at_once:
                number = waiting.pop(0)
                known = shared.setdefault(key(jobs[number]), {})
                sys.stdout.flush()
                sys.stderr.flush()
                process = fork.Process(target=_child, args=(serve, jobs[number], known, Path(folder) / str(number)))
                process.start()
                running.append(_Running(number, process, time.monotonic() + seconds))
            connection.wait([one.process.sentinel for one in running], timeout=_POLL_SECONDS)
            for one in list(running):
                late = time.monotonic() > one.until
                if one.process.is_alive() and not late:
                    continue
                running.remove(one)
                _stop(one.process)
                why = f"it did not end in {seconds:,.0f} s" if late else ""
                found = _result(Path(folder) / str(one.number), why)
                if not isinstance(found, Failed):
                    found, known = found
                    shared[key(jobs[one.number])].update(known)
                results[one.number] = found
                ended(jobs[one.number], found)
    return results


def _child(serve: Serve, job: Any, known: dict[Any, Any], path: Path) -> None:
    """In the forked process: serve, and leave the result in a file."""
    with open(path.with_suffix(".log"), "w") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
    found: Any
    try:
        found = serve(job, known)
    except Exception as error:  # the row of the plan says what it was
        found = Failed(f"{type(error).__name__}: {error}" if type(error).__name__ != "PredictError" else str(error))
    whole = path.with_suffix(".part")
    whole.write_bytes(pickle.dumps(found))
    whole.rename(path)
    os._exit(0)


def _result(path: Path, why: str) -> Any:
    if path.exists():
        return pickle.loads(path.read_bytes())
    with contextlib.suppress(OSError):
        lines = path.with_suffix(".log").read_text(errors="replace").split("\n")
        why = why or next((line for line in reversed(lines) if line.strip()), "")
    return Failed(why or "its process died")


def _stop_all(running: list[_Running]) -> None:
    for one in running:
        _stop(one.process)


def _stop(process: Any) -> None:
    if process.is_alive():
        process.kill()
    process.join(_POLL_SECONDS)
