"""The long suites in parts of about three minutes on two idle cores, of which each run of all tests takes one.

Which one, the turn says: the number of commits in the history, divided by COMMITS_A_TURN. So each commit is always
tested alike, the last commit of a piece of work is tested as those before it, and some turns later everything was.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from commands import ROOT, child
from tests.processes import clean_environment

# Parts of each mode's cases, so that one takes about three minutes with one worker beside other tests.
CONFORMANCE = {"eager": 12, "lazy": 16, "compile": 16}
# Of a command. It is there for what hangs, not to hold anyone to three minutes: a part runs beside other suites, of
# which one compiles, on two cores that others may use as well, and a commit must not be refused because its machine was
# slow.
LIMIT_S = 900
MINUTES = 3.0  # after which a part of the conformance suite begins no case
FUZZ_PARTS = 4
COMMITS_A_TURN = 200
# Benchmarks that take more than some seconds with --quick: a part each. The others are one part together.
LONG_BENCHMARKS = ("recording", "lazy", "compile", "graphs", "machines", "distributed", "products")


class Shard(NamedTuple):
    """One part; `arguments` are pytest's, `fuzzed`: whether its random programs are new ones, drawn from the turn."""

    name: str
    arguments: tuple[str, ...]
    environment: dict[str, str] = {}  # noqa: RUF012
    fuzzed: bool = False


def _all() -> tuple[Shard, ...]:
    lazy = {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "off"}
    names = [f"{mode}-{k}-of-{parts}" for mode, parts in CONFORMANCE.items() for k in range(1, parts + 1)]
    found = [Shard(f"conformance-{n}", (f"tests/rotating/test_conformance.py::test_part[{n}]",)) for n in names]
    # As many programs as `make fuzz` draws, over all parts.
    for kind, number, arguments in (
        ("programs", 2000, ("tests/fuzz/test_programs.py", "-k", "not compiled")),
        ("recipes", 20, ("tests/fuzz/test_programs.py", "-k", "compiled")),
        ("graphs", 1000, ("tests/fuzz/test_graphs.py",)),
    ):
        environment = {**lazy, "FUZZ": "nightly", f"FUZZ_{kind.upper()}": str(number // FUZZ_PARTS)}
        for k in range(1, FUZZ_PARTS + 1):
            found.append(Shard(f"fuzz-{kind}-{k}-of-{FUZZ_PARTS}", arguments, environment, fuzzed=True))
    found += [
        Shard("examples", ("tests/rotating/test_examples.py",)),
        Shard("benchmarks", ("tests/rotating/test_benchmarks.py", "-m", "not long")),
        *(
            Shard(f"benchmark-{name}", (f"tests/rotating/test_benchmarks.py::test_benchmark[{name}]",))
            for name in LONG_BENCHMARKS
        ),
        Shard("ci", ("tests/rotating/test_ci.py",)),
        Shard("install", ("tests/rotating/test_install.py",)),
        Shard("aarch64", ("tests/rotating/test_aarch64.py",)),
    ]
    return tuple(found)


SHARDS = _all()


def run(
    command: Sequence[str], folder: Path, cwd: Path = ROOT, environment: Mapping[str, str] = os.environ
) -> child.Ended:
    """Run one of this project's commands, which keeps its locks and results in `folder`, within LIMIT_S."""
    own = {"COMMANDS_BUILD": str(folder / "build"), "BUDGET": str(LIMIT_S / 60)}
    return child.run(command, seconds=LIMIT_S + 30, cwd=cwd, env={**environment, **own}, split=True)


def environment_of(folder: Path, **variables: str) -> dict[str, str]:
    """A clean environment in which the project's commands and lightning-habana are found."""
    environment = clean_environment(folder, **variables)
    paths = (environment["PYTHONPATH"], str(ROOT), str(ROOT / "lightning-habana/src"))
    return environment | {"PYTHONPATH": os.pathsep.join(paths)}


def turn() -> int:
    """The turn of the commit that is checked out; 0 where there is no repository."""
    counted = ["git", "rev-list", "--count", "HEAD"]
    done = subprocess.run(counted, cwd=ROOT, capture_output=True, text=True, check=False)
    return int(done.stdout) // COMMITS_A_TURN if done.returncode == 0 else 0


def of(turn: int) -> Shard:
    """The part that belongs to a turn."""
    return SHARDS[turn % len(SHARDS)]


def arguments(shard: Shard, turn: int) -> Sequence[str]:
    """What pytest is given."""
    return (*shard.arguments, f"--hypothesis-seed={turn}") if shard.fuzzed else shard.arguments
