"""The pytest plugin: markers that forbid a test certain things, and `--hpu-report` for a page of all tests.

Without a marker and the option it only registers itself. It then runs no code with a test and does not import torch.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# By marker: the expectation, and the name of its argument, if it takes one.
_MARKERS = {
    "hpu_no_fallback": ("no_fallback", None, "the test runs no operator on the CPU"),
    "hpu_no_waits": ("no_waits", None, "the test reads no value on the host, and no size depends on values"),
    "hpu_max_graphs": ("max_graphs", "n", "the test has at most n new graphs"),
    "hpu_no_compilation_after": ("after_steps", "warm_steps", "after so many steps no graph is new or recompiled"),
    "hpu_max_memory": ("max_memory", "bytes", "the test has at most so many bytes of device memory at once"),
}
_WANTED = pytest.StashKey[dict[str, Any]]()
_RECORD = pytest.StashKey[Any]()
_NOTHING: dict[str, Any] = {"seconds": 0.0, "violations": []}  # of a row, for a test that did not begin
_ROW = "openhpu"  # a test's row among the properties of its report, which xdist hands over


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("openhpu")
    group.addoption(
        "--hpu-strict",
        action="store_true",
        help="the device does what a Gaudi does, with its errors (OPENHPU_STRICT=gaudi)",
    )
    group.addoption(
        "--hpu-report",
        metavar="PAGE",
        default=None,
        help="write a page (HTML, with JSON beside it) with the work of each test on hpu: graphs, recompilations, "
        "operators on the CPU, waits and memory",
    )


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    if early_config.known_args_namespace.hpu_strict:  # before a conftest imports torch, and for xdist's workers
        os.environ["OPENHPU_STRICT"] = "gaudi"


def pytest_configure(config: pytest.Config) -> None:
    for name, (_, argument, text) in _MARKERS.items():
        config.addinivalue_line("markers", f"{name}{f'({argument})' if argument else ''}: {text} (openhpu)")
    page = config.getoption("--hpu-report")
    if not page:
        return
    worker = getattr(config, "workerinput", None)
    if worker is not None:  # of xdist: each has a module of its own
        number = int("".join(filter(str.isdigit, worker["workerid"])) or 0)
        os.environ.setdefault("HABANA_VISIBLE_MODULES", str(number % int(os.environ.get("OPENHPU_DEVICE_COUNT") or 8)))
        return
    from openhpu.testing.report import Report, ReportError

    try:
        config.pluginmanager.register(_Reporter(Report(Path(page))), "openhpu-report")
    except ReportError as error:
        raise pytest.UsageError(f"--hpu-report: {error}") from error


def pytest_unconfigure(config: pytest.Config) -> None:
    if record := config.stash.get(_RECORD, None):
        record.end()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if wanted := _expectations(item):
            item.stash[_WANTED] = wanted


def _expectations(item: pytest.Item) -> dict[str, Any]:
    """The expectations of a test's markers. UsageError, with the test's name, for a wrong argument."""
    found: dict[str, Any] = {}
    for name, (expectation, argument, _) in _MARKERS.items():
        mark = item.get_closest_marker(name)
        if mark is None:
            continue
        given = [*mark.args, *mark.kwargs.values()]
        if argument is None:
            if given:
                raise pytest.UsageError(f"{item.nodeid}: the marker {name} takes no argument, got {given}")
            found[expectation] = True
            continue
        right = len(given) == 1 and {*mark.kwargs} <= {argument} and type(given[0]) is int and given[0] >= 0
        if not right:
            raise pytest.UsageError(f"{item.nodeid}: {name}({argument}) takes an integer of 0 or more, got {given}")
        found[expectation] = given[0]
        if expectation == "after_steps":
            found["no_compilation"] = True
    for fixture in ("hpu_no_fallback", "hpu_no_waits"):
        if fixture in getattr(item, "fixturenames", ()):
            found[_MARKERS[fixture][0]] = True
    return found


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    nothing: dict[str, Any] = {}
    wanted = item.stash.get(_WANTED, nothing).copy()
    if not wanted and not item.config.getoption("--hpu-report"):
        yield
        return
    from openhpu.testing.expect import ExpectationError, Expectations, Record

    after_steps = wanted.pop("after_steps", 0)
    record = item.config.stash.setdefault(_RECORD, Record())  # one for all tests: it listens from the first on
    record.begin()
    begun = time.monotonic()
    outcome: Any = yield
    record.pause()
    violations = record.violations(Expectations(**wanted), after_steps)
    row = record.row() | {"seconds": round(time.monotonic() - begun, 4), "violations": violations}
    item.user_properties.append((_ROW, row))
    if row["violations"] and outcome.excinfo is None:
        outcome.force_exception(ExpectationError("\n  ".join(["on hpu:", *row["violations"]])))


@pytest.fixture
def hpu_no_fallback() -> None:
    """As the marker: the test runs no operator on the CPU."""


@pytest.fixture
def hpu_no_waits() -> None:
    """As the marker: the test reads no value on the host, and no size depends on values."""


@pytest.fixture
def hpu_expect() -> Any:
    """`openhpu.expect`, for a part of a test."""
    import openhpu

    return openhpu.expect


class _Reporter:
    """Of the process that writes the page: pytest's own, or xdist's controller."""

    def __init__(self, report: Any) -> None:
        self._report = report
        self._failed_parts: set[str] = set()  # tests of which a subtest failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        from openhpu.testing.expect import Record

        if report.when == "call" and hasattr(report, "context"):  # of a subtest; the test's own comes later
            if report.failed:
                self._failed_parts.add(report.nodeid)
        elif report.when == "call":
            row = dict(report.user_properties).get(_ROW)
            done = row if isinstance(row, dict) else _NOTHING | Record().row()
            failed = report.nodeid in self._failed_parts
            self._report.add({"test": report.nodeid, "outcome": "failed" if failed else report.outcome, **done})
        elif report.when == "setup" and not report.passed:  # it did not begin
            outcome = "error" if report.failed else report.outcome
            row = _NOTHING | Record().row() | {"seconds": round(report.duration, 4)}
            self._report.add({"test": report.nodeid, "outcome": outcome, **row})
        elif report.failed:
            self._report.ended(report.nodeid, "error")

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        self._report.write()
        terminalreporter.section("hpu")
        for line in self._report.summary():
            terminalreporter.write_line(line)
        if os.environ.get("GITHUB_ACTIONS"):
            for line in self._report.annotations():
                terminalreporter.write_line(line)

    def pytest_unconfigure(self) -> None:
        self._report.close()
