"""Runs the Python tests: `python -m tests.run [--only SUITE ...] [PYTEST ARGUMENT ...]`.

A suite is a run of pytest with an environment of its own, since suites load and configure the device differently. Its
tests run in one process and in one order. As many suites run side by side as there are cores, four at most. A test
that takes too long, or ends its process, fails, and the others go on in a new process (pytest-xdist). All of it has a
budget of 75 minutes, which BUDGET=minutes changes (commands/budget.py). Everything else is passed on to each pytest.

Where all suites run, some files run in turns (tests/rotating/shards.py): `--turns` lists them with their periods, and
runs nothing. With `--only` they run each time. The suite "rotating" is one part of the long suites, also chosen by the
turn; `--shard NAME` chooses another one.

At the end the slowest tests are printed, and what failed. The last line is the total, `N passed, N failed, N skipped`;
an error outside a test counts as failed. Exit code 0 means that something ran and nothing failed.
"""

import argparse
import os
import re
import sys
import threading
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from commands import BUILD, ROOT, child
from commands.budget import Budget
from tests.processes import HEADERS, RECIPES
from tests.rotating import shards
from tests.suites import SUITES, Suite

FOLDER = BUILD / "tests"  # of logs
CALLED = FOLDER / "called-rows.txt"  # see tests/hpu/called_rows.py
CALLED_S = 60
MINUTES = 75  # after which it is stopped
AIM_MINUTES = 20  # on two idle cores
HEADERS_S = 300
MOST_SUITES = 4  # side by side
SLOWEST = 40  # tests whose time is printed, of all suites
STACK = 200  # lines
USUAL = (0, 1, 5)  # pytest's: all passed, some failed, none collected
# Suites share the cores. OpenMP's threads would wait for each other by polling, which takes the cores from the other
# suite: a detection model, beside other work, took 50 to 75 s instead of 3 to 8 s.
SHARED_CORES = {"OMP_WAIT_POLICY": "passive"}
OUTCOME = re.compile(r"\[gw\d+\] \[ *\d+%\] (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) (\S+::.+?)\s*$")
SECONDS = re.compile(r"([\d.]+)s (?:call|setup|teardown) +(\S+::.+)$")
KINDS = {"PASSED": "passed", "XPASS": "passed", "SKIPPED": "skipped", "XFAIL": "skipped"}


@dataclass
class Ran:
    """What became of a suite: outcomes by test ("passed", "failed", "skipped"), and seconds of its slow tests."""

    outcomes: dict[str, str] = field(default_factory=dict)
    seconds: Counter[str] = field(default_factory=Counter)

    def read(self, line: str) -> str:
        """Take in a line of pytest's; the test that has ended, or ""."""
        if found := SECONDS.match(line):
            self.seconds[found[2]] += float(found[1])
        if not (found := OUTCOME.match(line)):
            return ""
        outcome = KINDS.get(found[1], "failed")
        test = found[2]
        if self.outcomes.get(test) != "failed":  # it may pass, and fail when it is taken down
            self.outcomes[test] = outcome
        return test

    def failures(self) -> list[str]:
        return [test for test, outcome in self.outcomes.items() if outcome == "failed"]


def slowest(ran: dict[str, Ran]) -> list[str]:
    """The tests that took longest, a line each: seconds, suite, name."""
    every = [(seconds, suite, name) for suite, each in ran.items() for name, seconds in each.seconds.items()]
    return [f"{seconds:7.1f} s  {suite}  {name}" for seconds, suite, name in sorted(every, reverse=True)[:SLOWEST]]


def rotating(name: str | None) -> tuple[Suite, list[str]]:
    """The part of the long suites of that name, or of this turn, with pytest's arguments; says which."""
    turn = shards.turn()
    chosen = shards.of(turn)
    if name:
        (chosen,) = [shard for shard in shards.SHARDS if shard.name == name]
    where = f"of {len(shards.SHARDS)}; turn {turn}" if not name else "as asked for"
    print(f"rotating shard: {chosen.name} ({where})", flush=True)
    return SUITES["rotating"]._replace(environment=chosen.environment), [*shards.arguments(chosen, turn)]


def run_suite(name: str, suite: Suite, arguments: list[str], budget: Budget, ran: Ran) -> None:
    """Run one suite; its outcomes are added to `ran` as they come. Says failures at once, and at the end in full."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-X",
        "faulthandler",
        "-m",
        "pytest",
        "-v",
        "--color=no",
        f"--durations={SLOWEST}",
        "--durations-min=1",
        "-n",
        "1",
        "-o",
        f"faulthandler_timeout={suite.seconds}",
        *arguments,
    ]
    environment = {**SHARED_CORES, **os.environ, "OPENHPU_MODULE_LOCKS": "0", **suite.environment}
    if name == "hpu":
        CALLED.unlink(missing_ok=True)
        environment["TESTS_CALLED_ROWS"] = str(CALLED)
    budget.say(f"=== {name} begins")
    started = time.monotonic()
    log = FOLDER / f"{name}.log"
    with (
        budget.doing(name, "begins"),
        child.start(command, seconds=budget.seconds(), env=environment, cwd=ROOT, log=log, split=True) as running,
    ):
        ended = None
        while not ended:
            ended = running.poll(0.3)
            for line in running.lines(all=ended is not None):
                if test := ran.read(line):
                    budget.progress(name, test)
                    if ran.outcomes[test] == "failed":
                        budget.say(f"{name}: FAILED {test}")
    if child.ending():
        return
    if ended.code not in USUAL or (ended.code == 1 and not ran.failures()):  # as where a file can't be imported
        ran.outcomes[f"{name}: pytest: {ended.how}"] = "failed"
        budget.say(ended.tail)
    text = log.read_text(errors="replace")
    if "crashed while running" in text:  # with the stacks of what took too long
        budget.say(*ended.errors.splitlines()[-STACK:])
    told = re.search(r"^=+ (FAILURES|ERRORS) =+$.*?(?=^=+ slowest|^=+ short test summary)", text, re.M | re.S)
    counts = Counter(ran.outcomes.values())
    budget.done(name, counted(counts))
    said = f"=== {name} ended after {time.monotonic() - started:.0f} s: {counted(counts)}"
    budget.say(*([told[0]] if told else []), said)


def rows_without_a_call() -> list[str]:
    """The operators of operators.tsv that no test of the suite hpu has called."""
    ended = child.run([sys.executable, "-m", "tests.hpu.called_rows", str(CALLED)], cwd=ROOT, seconds=CALLED_S)
    if ended.code:
        return [f"tests.hpu.called_rows: {ended.how}"]
    return ended.output.split()


def counted(counts: Counter[str]) -> str:
    return f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"


def make_headers(budget: Budget) -> None:
    """What all recipes of tests include, once: a background compiler beside other tests would take minutes for it."""
    code = """
import tempfile, pathlib
from openhpu.compiler.inductor import inductor, toolchain
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


def list_turns() -> None:
    """Print what does not run in each turn: whether this one has it, its period in turns, suite, file or part."""
    turn = shards.turn()
    for name, suite in SUITES.items():
        now = suite.paths(turn)
        for path in suite.in_turns():
            print(f"{'now' if path in now else '':3s} 1 of {suite.period:<3d} {name}: {path}")
    for shard in shards.SHARDS:
        print(f"{'now' if shard == shards.of(turn) else '':3s} 1 of {len(shards.SHARDS):<3d} rotating: {shard.name}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.run", description=__doc__)
    parser.add_argument(
        "--only",
        action="append",
        choices=SUITES,
        metavar="SUITE",
        help=f"run this suite only; may be repeated: {', '.join(SUITES)}",
    )
    parser.add_argument(
        "--shard", metavar="NAME", choices=[shard.name for shard in shards.SHARDS], help=argparse.SUPPRESS
    )
    parser.add_argument("--turns", action="store_true", help="list what runs in turns with its period, and run nothing")
    options, passed_on = parser.parse_known_args(arguments)
    if options.turns:
        list_turns()
        return 0
    ran: dict[str, Ran] = {}
    with Budget("python -m tests.run", MINUTES, lambda: so_far(ran)) as budget:
        return run(options.only, options.shard, passed_on, budget, ran)


def so_far(ran: dict[str, Ran]) -> list[str]:
    """For a run that ends before its time."""
    lines = [f"  failed: {suite}: {test}" for suite, each in ran.items() for test in each.failures()]
    return [*lines, f"  by then: {counted(total(ran))}"]


def total(ran: dict[str, Ran]) -> Counter[str]:
    return sum((Counter(each.outcomes.values()) for each in ran.values()), Counter())


def await_all(suites: list[Future[None]]) -> None:
    """Wait for suites, so that a signal is heard; raises what one of them raised."""
    while suites:
        if wait(suites[:1], timeout=0.5).done:
            suites.pop(0).result()


def run(only: list[str] | None, shard: str | None, passed_on: list[str], budget: Budget, ran: dict[str, Ran]) -> int:
    """Run suites side by side, and print what came of them; the exit code."""
    names = only or list(SUITES)
    budget.planned(names)
    RECIPES.mkdir(parents=True, exist_ok=True)
    headers = threading.Thread(target=make_headers, args=(budget,), daemon=True)
    headers.start()

    def run_one(name: str) -> None:
        suite = SUITES[name]
        paths = suite.paths(None if only else shards.turn())
        if name == "rotating":
            suite, paths = rotating(shard)
        while suite.compiles and headers.is_alive():
            headers.join(1.0)
        if paths and not child.ending():
            run_suite(name, suite, [*paths, *passed_on], budget, ran[name])
            if name == "hpu" and not passed_on and not child.ending():
                for row in rows_without_a_call():
                    ran[name].outcomes[f"operators.tsv: {row}: no test calls it"] = "failed"

    ran.update((name, Ran()) for name in names)
    pool = ThreadPoolExecutor(min(MOST_SUITES, len(os.sched_getaffinity(0))))
    try:
        await_all([pool.submit(run_one, name) for name in names])
    finally:
        pool.shutdown(cancel_futures=True, wait=False)
    print(f"the slowest {SLOWEST} tests:", *slowest(ran), sep="\n")
    for suite_name, each in ran.items():
        for test in each.failures():
            print(f"FAILED {suite_name}: {test}")
    print(f"{time.monotonic() - budget.started:.0f} s; the aim is {AIM_MINUTES * 60} s for all suites")
    counts = total(ran)
    print(counted(counts))
    return 0 if counts["passed"] and not counts["failed"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
