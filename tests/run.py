"""Runs the Python tests, a process for each suite: `python -m tests.run [--only SUITE ...] [PYTEST ARGUMENT ...]`.

Suites are kept apart because they load and configure the device differently. What one prints appears when it ends.
Everything is passed on to each pytest. The suite "rotating" is one part of the long suites, chosen by the commit
(tests/rotating/shards.py); `--shard NAME` chooses another, `--shards` lists them. Where all suites run, those that
repeat another one run a part of what they repeat, chosen by the commit, too (tests/turns.py); with `--only` they run
all of it. At the end the slowest tests are printed. The last line is the total, `N passed, N failed, N skipped`; an
error outside a test counts as failed. Exit code 0 means that something ran and nothing failed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests import turns
from tests.processes import HEADERS
from tests.rotating import shards

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT_S = 2400  # of one suite: a hang is a failure, not a wait
SLOWEST = 40  # tests whose time is printed, of all suites
NOTHING_COLLECTED = 5
LAZY = {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "off"}


def beside(*names: str) -> dict[str, str]:
    """The environment of what is installed beside the packages, each in a folder of its own; see the Makefile."""
    return {"PYTHONPATH": os.pathsep.join(str(Path(sys.prefix) / name) for name in names)}


DEEPSPEED = beside("deepspeed", "transformers")
# Lightning's newest version, with the DeepSpeed that it names.
LIGHTNING_NEXT = beside("lightning-next", "deepspeed-0.16", "deepspeed", "transformers")
COMPILED = {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "sync", "PT_HPU_RECIPE_CACHE_CONFIG": ""}


_printing = threading.Lock()
_taking = threading.Lock()
_running: set[subprocess.Popen[bytes]] = set()  # the suites' processes, each the first of its session


class Suite(NamedTuple):
    """Files, and the environment of their process."""

    files: str  # a folder, or a pattern of files
    compiles: bool  # whether its time is that of the compilers of recipes
    environment: dict[str, str] = {}  # noqa: RUF012
    arguments: tuple[str, ...] = ()  # of pytest, in place of the files

    def paths(self) -> list[str]:
        """What pytest is given; nothing where a suite has no test file."""
        if self.arguments:
            return list(self.arguments)
        found = sorted(ROOT.glob(self.files))
        return [str(path.relative_to(ROOT)) for path in found if path.is_file() or any(path.rglob("test_*.py"))]


# Those that compile run one after another, and the others beside them: where Linux does not share the cores between
# sessions, two that compile starve each other, as compilers of recipes have the lowest priority. In the order in which
# they begin: the longest first.
SUITES = {
    # The device's tests with every operator recorded and run node by node; and those of lazy mode alone.
    "lazy": Suite("tests/hpu", False, LAZY),
    "hpu": Suite("tests/hpu", False),
    "compiled": Suite("tests/hpu/test_compiled_[!e]*.py", True, COMPILED),
    "compiled-eager": Suite("tests/hpu/test_compiled_eagerly_*.py", True, COMPILED | {"PT_HPU_LAZY_MODE": "0"}),
    "python": Suite("tests/python", True),
    "conformance": Suite("tests/conformance", True),
    # Tests in several processes, which share the cores.
    "distributed": Suite("tests/distributed", False),
    "distributed-lazy": Suite("tests/distributed", False, LAZY),
    # The same tests with both versions of Lightning, one in each mode.
    "lightning": Suite("tests/lightning", False, DEEPSPEED),
    "lightning-next": Suite("tests/lightning", False, LAZY | LIGHTNING_NEXT),
    "deepspeed": Suite("tests/deepspeed", False, DEEPSPEED),
    "fuzz": Suite("tests/fuzz", False, LAZY),
    # A part of the long suites, another one for each commit.
    "rotating": Suite("tests/rotating", True),
}


class Ran(NamedTuple):
    """Numbers of tests by outcome, and the seconds that each took."""

    counts: Counter[str]
    seconds: dict[str, float]


def read(report: Path) -> Ran:
    """What pytest's own report says. An expected failure counts as skipped."""
    counts: Counter[str] = Counter()
    seconds = {}
    for suite in ElementTree.parse(report).getroot().iter("testsuite"):
        number = {name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
        counts["failed"] += number["failures"] + number["errors"]
        counts["skipped"] += number["skipped"]
        counts["passed"] += number["tests"] - number["failures"] - number["errors"] - number["skipped"]
        for case in suite.iter("testcase"):
            seconds[f"{case.get('classname')}::{case.get('name')}"] = float(case.get("time", 0))
    return Ran(counts, seconds)


def slowest(ran: dict[str, Ran]) -> list[str]:
    """The tests that took longest, a line each: seconds, suite, name."""
    every = [(seconds, suite, name) for suite, each in ran.items() for name, seconds in each.seconds.items()]
    return [f"{seconds:7.1f} s  {suite}  {name}" for seconds, suite, name in sorted(every, reverse=True)[:SLOWEST]]


def rotating(name: str | None) -> Suite:
    """The part of the long suites of that name, or of this commit; says which."""
    commit = shards.commit()
    chosen = shards.of(commit)
    if name:
        (chosen,) = [shard for shard in shards.SHARDS if shard.name == name]
    where = f"of {len(shards.SHARDS)}; commit {commit[:12]}" if not name else "as asked for"
    print(f"rotating shard: {chosen.name} ({where})", flush=True)
    return SUITES["rotating"]._replace(
        arguments=tuple(shards.arguments(chosen, commit)), environment=chosen.environment
    )


def run_suite(name: str, suite: Suite, arguments: list[str]) -> Ran:
    """Outcomes of one suite. A process that dies counts as one failure more than it reported."""
    print(f"=== {name} begins", *[text for text in arguments if text.startswith("--turn")], flush=True)
    started = time.monotonic()
    note = ""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            sys.executable, "-m", "pytest", *suite.paths(), "-q", f"--junit-xml={report}",
            "-o", "faulthandler_timeout=300", *arguments,
        ]  # fmt: skip
        environment = {**os.environ, "OPENHPU_MODULE_LOCKS": "0", **suite.environment}
        output = Path(folder) / "output"
        with output.open("w") as log:
            # A session of its own: Linux shares the cores between sessions (autogroup), so that a compiler of the
            # lowest priority competes with its own suite, and is not starved by the one beside.
            process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
            )
            _running.add(process)
            try:
                code = process.wait(TIMEOUT_S)
            except subprocess.TimeoutExpired:
                note = f"{name}: not finished after {TIMEOUT_S} s\n"
                os.killpg(process.pid, signal.SIGKILL)
                code = process.wait()
            finally:
                _running.discard(process)
        ran = read(report) if report.exists() else Ran(Counter(), {})
        printed = output.read_text(errors="replace")
    if code not in (0, NOTHING_COLLECTED) and not ran.counts["failed"]:
        note += f"{name}: pytest ended with {code}\n"
        ran.counts["failed"] += 1
    with _printing:
        print(f"{printed}{note}=== {name} ended after {time.monotonic() - started:.0f} s", flush=True)
    return ran


def interrupt() -> None:
    """Tell the suites of a Ctrl-C, which a terminal does not: they are in sessions of their own."""
    for process in tuple(_running):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)


def make_headers() -> None:
    """What all recipes of tests include, once: a background compiler beside other tests would take minutes for it."""
    code = """
import torch
for _ in range(3):
    (torch.ones(200_000, device="hpu") * 2).sum().item()
"""
    environment = {**os.environ, **COMPILED, "OPENHPU_MODULE_LOCKS": "0", "OPENHPU_HEADER_CACHE": HEADERS}
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, timeout=TIMEOUT_S, check=False)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.run", description=__doc__)
    parser.add_argument("--only", action="append", choices=tuple(SUITES), help="run this suite only; may be repeated")
    parser.add_argument(
        "--shard", metavar="NAME", choices=[shard.name for shard in shards.SHARDS], help=argparse.SUPPRESS
    )
    parser.add_argument("--shards", action="store_true", help="list the parts of the long suites, and run nothing")
    options, passed_on = parser.parse_known_args(arguments)
    if options.shards:
        print("\n".join(shard.name for shard in shards.SHARDS))
        return 0
    started = time.monotonic()
    ran: dict[str, Ran] = {}
    turn = {} if options.only else {name: turns.option(name, shards.commit()) for name in SUITES}
    names = [name for name in options.only or SUITES if SUITES[name].paths()]
    suites = {name: rotating(options.shard) if name == "rotating" else SUITES[name] for name in names}
    # The lane that has done its own takes the other's.
    compiling = [name for name in names if SUITES[name].compiles]
    left = [name for name in names if not SUITES[name].compiles]

    def run_lane(lane: list[str]) -> None:
        if lane:
            make_headers()
        for todo in (lane, left):
            while True:
                with _taking:
                    if not todo:
                        break
                    name = todo.pop(0)
                ran[name] = run_suite(name, suites[name], [*turn.get(name, ()), *passed_on])

    with ThreadPoolExecutor(2) as pool:
        try:
            list(pool.map(run_lane, (compiling, [])))
        except KeyboardInterrupt:
            with _taking:
                compiling.clear()
                left.clear()
            interrupt()
            raise
    print(f"the slowest {SLOWEST} tests:", *slowest(ran), sep="\n")
    print(f"{time.monotonic() - started:.0f} s")
    total = sum((each.counts for each in ran.values()), Counter())
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 0 if total["passed"] and not total["failed"] else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as a Ctrl-C: what ends this process ends its suites
    sys.exit(main(sys.argv[1:]))
