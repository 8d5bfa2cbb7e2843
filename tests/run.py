"""Runs the Python tests, a process for each suite: `python -m tests.run [--only SUITE ...] [PYTEST ARGUMENT ...]`.

Suites are kept apart because they load and configure the device differently. What one prints appears when it ends, and
a line for each failure at once. A test that takes too long (tests/told.py) or ends its process fails, and its suite
goes on with the next one. All of it has a budget of 75 minutes, which BUDGET=minutes changes (commands/budget.py).
Everything is passed on to each pytest. The suite "rotating" is one part of the long suites, chosen by the commit
(tests/rotating/shards.py); `--shard NAME` chooses another, `--shards` lists them. Where all suites run, some run a part
of their tests, chosen by the commit, too: those that repeat another suite, and those that take long (tests/turns.py).
With `--only` they run all of it. At the end the slowest tests are printed. The last line is the total, `N passed, N
failed, N skipped`; an error outside a test counts as failed. Exit code 0 means that something ran and nothing failed.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from commands import child
from commands.budget import Budget
from tests import followed, turns
from tests.followed import Ran
from tests.processes import HEADERS
from tests.rotating import shards

ROOT = Path(__file__).resolve().parents[1]
MINUTES = 75  # after which it is stopped
AIM_MINUTES = 25  # on two idle cores
HEADERS_S = 300
LAST_S = 3.0  # for what is stopped to end
SLOWEST = 40  # tests whose time is printed, of all suites
LAZY = {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "off"}
# Two suites share the cores. OpenMP's threads would wait for each other by polling, which takes the cores from the
# other suite: a detection model, beside other work, took 50 to 75 s instead of 3 to 8 s.
SHARED_CORES = {"OMP_WAIT_POLICY": "passive"}


def beside(*names: str) -> dict[str, str]:
    """The environment of what is installed beside the packages, each in a folder of its own; see the Makefile."""
    return {"PYTHONPATH": os.pathsep.join(str(Path(sys.prefix) / name) for name in names)}


DEEPSPEED = beside("deepspeed", "transformers")
# Lightning's newest version, with the DeepSpeed that it names.
LIGHTNING_NEXT = beside("lightning-next", "deepspeed-0.16", "deepspeed", "transformers")
COMPILED = {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "sync", "PT_HPU_RECIPE_CACHE_CONFIG": ""}


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
    "compiler": Suite("tests/python/openhpu/compiler", True),
    "python": Suite("tests/python", False, arguments=("tests/python", "--ignore=tests/python/openhpu/compiler")),
    # One process after another, of which most wait: beside what compiles, not alone at the end.
    "deepspeed": Suite("tests/deepspeed", False, DEEPSPEED),
    "conformance": Suite("tests/conformance", True),
    # Tests in several processes, which share the cores.
    "distributed": Suite("tests/distributed", False),
    "distributed-lazy": Suite("tests/distributed", False, LAZY),
    # The same tests with both versions of Lightning, one in each mode.
    "lightning": Suite("tests/lightning", False, DEEPSPEED),
    "lightning-next": Suite("tests/lightning", False, LAZY | LIGHTNING_NEXT),
    "fuzz": Suite("tests/fuzz", False, LAZY),
    # A part of the long suites, another one for each commit.
    "rotating": Suite("tests/rotating", True),
}
# For --only: hangs, which tests of this module run.
HIDDEN = {"planted": Suite("tests/planted", False)}


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


def run_suite(name: str, suite: Suite, arguments: list[str], budget: Budget, ran: Ran) -> None:
    """Run one suite; its outcomes are added to `ran` as they come."""
    budget.say(" ".join([f"=== {name} begins", *(text for text in arguments if text.startswith("--turn"))]))
    started = time.monotonic()
    environment = {**SHARED_CORES, **os.environ, "OPENHPU_MODULE_LOCKS": "0", **suite.environment}
    printed = followed.run_suite(name, suite.paths(), environment, arguments, budget, ran)
    if not child.ending():
        budget.progress(name, None)
        budget.done(name, counted(ran.counts))
    budget.say(f"{printed}=== {name} ended after {time.monotonic() - started:.0f} s")


def counted(counts: Counter[str]) -> str:
    return f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"


def make_headers(budget: Budget) -> None:
    """What all recipes of tests include, once: a background compiler beside other tests would take minutes for it."""
    code = """
import tempfile, pathlib
from openhpu.compiler import inductor, toolchain
with tempfile.TemporaryDirectory() as folder:
    inductor.ahead(pathlib.Path(folder) / "ahead")
while toolchain.precompile_behind():
    pass
"""
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "OPENHPU_HEADER_CACHE": HEADERS}
    with budget.doing("headers", "compiling what recipes include"):
        ended = child.run([sys.executable, "-c", code], cwd=ROOT, env=environment, seconds=budget.seconds(HEADERS_S))
    if ended.code and not child.ending():
        budget.say(f"headers: {ended.how}; tests make them themselves\n{ended.tail}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.run", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=(*SUITES, *HIDDEN), metavar="SUITE",
        help=f"run this suite only; may be repeated: {', '.join(SUITES)}",
    )  # fmt: skip
    parser.add_argument(
        "--shard", metavar="NAME", choices=[shard.name for shard in shards.SHARDS], help=argparse.SUPPRESS
    )
    parser.add_argument("--shards", action="store_true", help="list the parts of the long suites, and run nothing")
    options, passed_on = parser.parse_known_args(arguments)
    if options.shards:
        print("\n".join(shard.name for shard in shards.SHARDS))
        return 0
    ran: dict[str, Ran] = {}
    with Budget("python -m tests.run", MINUTES, lambda: so_far(ran)) as budget:
        return run(options.only, options.shard, passed_on, budget, ran)


def so_far(ran: dict[str, Ran]) -> list[str]:
    """For a run that ends before its time."""
    lines = [f"  failed: {suite}: {test}" for suite, each in ran.items() for test in each.failures]
    return [*lines, f"  by then: {counted(total(ran))}"]


def total(ran: dict[str, Ran]) -> Counter[str]:
    return sum((each.counts for each in ran.values()), Counter())


def run(only: list[str] | None, shard: str | None, passed_on: list[str], budget: Budget, ran: dict[str, Ran]) -> int:
    """Run suites in two lanes, and print what came of them; the exit code."""
    turn = {} if only else {name: turns.option(name, shards.commit()) for name in SUITES}
    known = SUITES | HIDDEN
    names = [name for name in only or SUITES if known[name].paths()]
    suites = {name: rotating(shard) if name == "rotating" else known[name] for name in names}
    budget.planned(names)
    # The lane that has done its own takes the other's.
    compiling = [name for name in names if known[name].compiles]
    left = [name for name in names if not known[name].compiles]
    taking = threading.Lock()
    errors: list[BaseException] = []

    def run_lane(lane: list[str]) -> None:
        try:
            if lane:
                make_headers(budget)
            for todo in (lane, left):
                while not child.ending():
                    with taking:
                        if not todo:
                            break
                        name = todo.pop(0)
                    ran[name] = Ran()
                    run_suite(name, suites[name], [*turn.get(name, ()), *passed_on], budget, ran[name])
        except BaseException as error:
            if not child.ending():  # else it is that nothing can be started any more
                errors.append(error)
        finally:
            ended.release()

    # Of the kind that a process does not wait for at its end: the budget ends what they wait for. Nor is `join` asked,
    # which takes a thread for ended once a signal interrupted it.
    ended = threading.Semaphore(0)
    lanes = compiling, []
    for lane in lanes:
        threading.Thread(target=run_lane, args=(lane,), daemon=True).start()
    running = len(lanes)
    try:
        while running:
            running -= ended.acquire(timeout=1.0)
    except BaseException:  # the budget stops their children
        end = time.monotonic() + LAST_S
        for _ in range(running):
            ended.acquire(timeout=max(0.0, end - time.monotonic()))  # they add what came last
        raise
    if errors:
        raise errors[0]
    print(f"the slowest {SLOWEST} tests:", *slowest(ran), sep="\n")
    for suite, each in ran.items():
        for test in each.failures:
            print(f"FAILED {suite}: {test}")
    print(f"{time.monotonic() - budget.started:.0f} s; the aim is {AIM_MINUTES * 60} s for all suites")
    counts = total(ran)
    print(counted(counts))
    return 0 if counts["passed"] and not counts["failed"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
