"""A pytest plugin: each test has a time, and what runs the suites is told when a test begins and how it ends.

A test has LIMIT_S seconds, with its fixtures; LONGER names those that need more. When they have passed, the stacks of
all threads are written. Without tests/run.py the process ends then. Under it, `TESTS_TOLD` names a folder:

    done     node ids, a line each, that are left out: an earlier process of the suite did them
    events   the plugin appends a line of JSON for each begin and end of a test
    stack    it writes stacks there, and tests/run.py ends the process

So the results are there as soon as a test ends, however its process ends.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import time
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import IO, Any

import pytest

LIMIT_S = 120.0
# Patterns of node ids, with the seconds and the reason.
LONGER = {
    "tests/rotating/*": (1000, "a part of a long suite, an example or a benchmark, each a command with its own limit"),
    "tests/planted/test_hangs.py::*compile_process*": (
        240,
        "a process that imports PyTorch, for which a scaled time has to do",
    ),
    "tests/conformance/*": (600, "a part of PyTorch's databases, or of Gaudi's table, is one test"),
}
# Under FUZZ=nightly a test draws hundreds of programs.
FUZZED = {"tests/fuzz/*": (3000, "one test draws all programs, 2,000 of them")}
_TEXT = 20_000  # characters of a failure


def limit(test: str) -> float:
    """The seconds that a test has, by its node id; `TESTS_SECONDS` in place of LIMIT_S scales those of all."""
    scale = float(os.environ.get("TESTS_SECONDS", LIMIT_S)) / LIMIT_S
    longer = LONGER | (FUZZED if os.environ.get("FUZZ") == "nightly" else {})
    for pattern, (seconds, _) in longer.items():
        if fnmatch(test, pattern):
            return seconds * scale
    return LIMIT_S * scale


def pytest_configure(config: pytest.Config) -> None:
    """Called by pytest where it is given `-p tests.told`, and by tests/conftest.py."""
    debugged = config.getoption("usepdb", False) or config.getoption("trace", False)
    if not config.pluginmanager.hasplugin("told-events") and not debugged:
        config.pluginmanager.register(Told(os.environ.pop("TESTS_TOLD", None)), "told-events")


class Told:
    """The plugin of one process. `folder` is None without tests/run.py."""

    def __init__(self, folder: str | None) -> None:
        self._done: frozenset[str] = frozenset()
        self._events: IO[str] | None = None
        if folder is None:
            self._stack: IO[bytes] = os.fdopen(os.dup(2), "wb", buffering=0)  # not what pytest captures
        else:
            self._done = frozenset((Path(folder) / "done").read_text().splitlines())
            self._events = (Path(folder) / "events").open("a")
            self._stack = (Path(folder) / "stack").open("wb", buffering=0)
        self._pid = os.getpid()
        self._outcome = "passed"
        self._text = ""

    def _tell(self, what: str, **event: Any) -> None:
        if self._events and os.getpid() == self._pid:  # not a child that a test forked
            self._events.write(json.dumps({"what": what, "at": time.monotonic(), **event}) + "\n")
            self._events.flush()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item], config: pytest.Config) -> None:
        if left_out := [item for item in items if item.nodeid in self._done]:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item.nodeid not in self._done]
        self._tell("collected", tests=len(items))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._tell("unread", test=report.nodeid, text=report.longreprtext[-_TEXT:])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        seconds = limit(item.nodeid)
        self._outcome, self._text = "passed", ""
        self._tell("begin", test=item.nodeid, limit=seconds)
        faulthandler.dump_traceback_later(seconds, exit=self._events is None, file=self._stack)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()
            with contextlib.suppress(OSError):
                if self._events and self._stack.tell():
                    self._stack.truncate(0)  # it ended after all
            self._tell("end", test=item.nodeid, outcome=self._outcome, text=self._text)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._outcome = "failed"
            self._text = (self._text + report.longreprtext)[-_TEXT:]
        elif report.skipped and self._outcome == "passed":
            self._outcome = "skipped"  # or an expected failure

    def pytest_sessionfinish(self) -> None:
        self._tell("finished")
