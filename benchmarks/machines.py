"""machines: training steps in each mode under the conditions that machines and scripts have.

Each peer trains in a process of its own, all under the same condition, in turns. A step's time (p50) is the median over
the rounds, of the round's median where each step ends in a read, elsewhere of the time until a round's steps were done,
divided by their number: without a read the host is ahead, and steps have no ends that one could see. "Best CPU" is the
faster of the CPU device as written and with fused AdamW. The latter runs in two processes: what three rounds of four of
them differ is the spread, and a value beyond its aim counts as a miss only where it is beyond that, too. Other aims of
the graph engine are measured by `lazy` (ResNet), `graphs` (the MLP12's replay) and `recording` (a record of x + y).
"""

import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from benchmarks import children
from benchmarks.machines_probe import WORKS
from benchmarks.parts import part
from benchmarks.processor_quota import group
from benchmarks.report import Cell, Table
from benchmarks.timing import ROUNDS_TO_QUOTE, Peer, Samples, Spread, Turn, check_losses, in_turns


@dataclass(frozen=True)
class Condition:
    """What surrounds a training: named so in `machines_probe`, where the script itself makes it."""

    name: str
    title: str
    environment: dict[str, str] = field(default_factory=dict)
    one_core: bool = False
    at_once: int = 1
    compiled: bool = False  # whether torch.compile is a peer, which is slow to start
    quota: float = 0.0  # of cores, by a control group; 0: none


ALL, READ = "all cores", "loss read"
CONDITIONS = (
    Condition(ALL, "all cores", compiled=True),
    Condition(READ, "the loss read in each step", compiled=True),
    Condition("one core", "one core by affinity, as taskset sets it", one_core=True),
    Condition("1 thread", "torch.set_num_threads(1)"),
    Condition("1.5 cores", "a quota of 1.5 cores, as containers have it", quota=1.5),
    Condition("last batch", "each eighth batch is smaller"),
    Condition("CPU product", "a 512 x 512 product on the CPU before each step"),
    Condition("DataLoader", "batches of a DataLoader with 2 workers, copied to the device in each step"),
    Condition("CPU before", "a CPU training ran before in the process"),
    Condition("OMP_PROC_BIND", "OMP_PROC_BIND=true", {"OMP_PROC_BIND": "true"}),
    Condition("2 at once", "the same script twice at once", at_once=2),
    Condition("4 at once", "the same script four times at once", at_once=4),
)
_BY_NAME = {condition.name: condition for condition in CONDITIONS}
# The whole matrix: a small and a large step under each condition, the other models where they differ from these.
_FEWER = (ALL, READ, "one core", "last batch", "2 at once")
_ALL = tuple(
    (work, condition.name)
    for condition in CONDITIONS
    for work in WORKS
    if work in ("MLP", "GPT") or condition.name in _FEWER
)
# The cells of --quick, what matters most first.
_QUICK = (
    ("MLP", ALL),
    ("MLP", READ),
    ("MLP", "one core"),
    ("GPT", ALL),
    ("GPT", READ),
    ("ConvNet", ALL),
    ("MLP", "1.5 cores"),
    ("MLP", "last batch"),
    ("MLP", "2 at once"),
    ("MLP", "DataLoader"),
)

EAGER, LAZY, REPLAY = "hpu, eager", "hpu, lazy", "hpu, replay"
MODES = (EAGER, LAZY, REPLAY)
CPU, FUSED, AGAIN, COMPILED = "CPU", "CPU, fused", "CPU, fused, again", "compile, fused"
_FUSED = {"optimizer": {"fused": True}}
PEERS: dict[str, dict[str, Any]] = {
    EAGER: {"device": "hpu", "mode": "eager"},
    LAZY: {"device": "hpu", "mode": "lazy"},
    REPLAY: {"device": "hpu", "mode": "replay"},
    CPU: {},
    FUSED: _FUSED,
    AGAIN: _FUSED,
    COMPILED: {"compiled": True, **_FUSED},
}

_MINUTES, _QUICK_MINUTES = 28.0, 5.5
_WARM_UP = 6
_TURN_S = 0.1
# A turn ends in a wait: with fewer steps, lazy mode would take that for the loop's habit.
_LEAST_CALLS = 5
_SLOWEST = 10.0  # a turn ends after so many times what it should take
# A start may have to compile recipes, beside whatever else the machine does; afterwards nothing does.
_START_S, _ANSWER_S = 300.0, 90.0
_LEAST_ROUNDS, _LEAST_CELL_S = 2, 5.0

REACHED, WITHIN, MISSED = "reached", "within the spread", "missed"


def _say(text: str) -> None:
    print(f"machines: {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Check:
    """A value beside its aim: what it is compared with, the value, its limit, the spread."""

    text: str
    value: float
    limit: float
    spread: float

    @property
    def verdict(self) -> str:
        """Whether the aim is reached; beyond it by no more than the spread counts for neither."""
        if self.value <= self.limit:
            return REACHED
        return WITHIN if self.value <= self.limit * self.spread else MISSED


_AS_WRITTEN = {"MLP": 1.7, "GPT": 1.1, "ConvNet": 1.0}


@dataclass
class Measured:
    """A cell: a model under a condition. Per peer its rounds."""

    work: str
    condition: str
    samples: dict[str, Samples] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)  # of ten lazy steps
    refused: dict[str, str] = field(default_factory=dict)  # peers that can't do it, with the reason
    failed: str = ""

    @property
    def name(self) -> str:
        return f"{self.work}, {self.condition}"

    def median(self, peer: str) -> float:
        return statistics.median(self.samples[peer].done)

    def best(self, peers: Sequence[str]) -> Samples:
        """The fastest of the peers that ran."""
        return self.samples[min((p for p in peers if p in self.samples), key=self.median)]

    def ratio(self, peer: str, to: Sequence[str]) -> Spread:
        return self.samples[peer].ratio_to(self.best(to))

    def spread(self) -> float:
        """A factor, at least 1, within which three of four rounds' ratios of the equal peers lie, or their inverses."""
        pairs = zip(self.samples[AGAIN].done, self.samples[FUSED].done, strict=True)
        off = sorted(abs(math.log(a / b)) for a, b in pairs)
        return math.exp(off[math.ceil(0.75 * len(off)) - 1])

    def checks(self, mode: str) -> list[Check]:
        """The aims of a mode in this cell."""
        small = self.work == "MLP"
        limit = 1.0
        if mode == EAGER:
            limit = 1.25 if small else 1.05
        aims: list[tuple[str, tuple[str, ...], float]] = [("best CPU", (CPU, FUSED), limit)]
        if mode == LAZY and self.condition == READ:
            aims += [("tuned", (FUSED, COMPILED), 1 / 1.2 if small else 1.0), ("hpu eager", (EAGER,), 1.0)]
        if mode == LAZY and self.condition == ALL:
            aims += [("as written", (CPU,), 1 / _AS_WRITTEN[self.work])]
            aims += [("tuned", (FUSED, COMPILED), 1 / 1.3 if small else 1.0)]
        return [Check(text, self.ratio(mode, peers).median, limit, self.spread()) for text, peers, limit in aims]


# By name: a peer's process, or several that do the same at once.
_Peers = dict[str, list[children.Peer]]


def _started(stack: ExitStack, work: str, condition: Condition, rounds: int, quota: str, recipes: str) -> _Peers:
    """The processes of a cell's peers, which the stack ends."""
    core = min(os.sched_getaffinity(0)) if condition.one_core else None
    by_name: _Peers = {}
    for name, options in PEERS.items():
        if name == COMPILED and not (condition.compiled and rounds >= ROUNDS_TO_QUOTE):
            continue
        asked = {
            "work": work,
            "condition": condition.name,
            "device": "cpu",
            "mode": "eager",
            "compiled": False,
            "optimizer": {},
            "quota": quota,
            **options,
        }
        environment = {
            **condition.environment,
            "PT_HPU_LAZY_MODE": str(int(asked["mode"] == "lazy")),
            "PT_HPU_RECIPE_CACHE_CONFIG": f"{recipes},False,2048",
        }
        by_name[name] = [
            stack.enter_context(children.Peer("machines_probe:Script", asked, environment=environment, core=core))
            for _ in range(condition.at_once)
        ]
    for copies in by_name.values():
        for child in copies:
            stack.callback(child.end)  # all of them, before the first is waited for
    return by_name


def _compare_losses(by_name: _Peers, found: Measured) -> None:
    """Warm all peers up, and compare their losses with the CPU's. Those that refuse the work leave `by_name`."""
    everyone = [child for copies in by_name.values() for child in copies]
    # All at once: it is imports, mostly.
    every_answer = iter(children.ask_all(everyone, "losses", _WARM_UP, seconds=_START_S))
    losses: dict[str, list[float]] = {}
    for name, copies in list(by_name.items()):
        answers = [next(every_answer) for _ in copies]
        if refused := next((a["refused"] for a in answers if "refused" in a), ""):
            found.refused[name] = refused
            del by_name[name]
            continue
        losses |= {name if i == 0 else f"{name} ({i})": a["losses"] for i, a in enumerate(answers)}
    for name, theirs in losses.items():
        check_losses(theirs, losses[CPU], f"{found.name}, {name} beside the CPU")


def _measure(work: str, condition: Condition, rounds: int, seconds: float, recipes: str) -> Measured:
    """Measure a cell, in about so many seconds. `recipes`: the folder of recipes that all cells share.

    Raises ChildError, OSError where a quota can't be set, or AssertionError where losses differ.
    """
    found, start = Measured(work, condition.name), time.monotonic()
    with ExitStack() as stack:
        quota = str(stack.enter_context(group(condition.quota))) if condition.quota else ""
        by_name = _started(stack, work, condition, rounds, quota, recipes)
        _compare_losses(by_name, found)
        turn_s = _TURN_S * condition.at_once
        # The times in these answers were taken while others started.
        step = max(answer["step"] for answer in children.ask_all(by_name[CPU], "losses", 0, seconds=_ANSWER_S))
        calls = max(_LEAST_CALLS, min(300, round(turn_s / step)))
        limit = turn_s * _SLOWEST

        def turn(copies: list[children.Peer], calls: int) -> Turn:
            times = children.ask_all(copies, "turn", calls, limit, seconds=limit * len(copies) + _ANSWER_S)
            done = statistics.mean(times) * calls
            return done, done, 0

        peers = [Peer(name, turn=partial(turn, copies)) for name, copies in by_name.items()]
        before = time.monotonic()
        for one in peers:
            one.take_turn(calls)
        took = time.monotonic() - before
        left = seconds - (time.monotonic() - start)
        affordable = int(left * 0.9 / max(took, 1e-3)) - 2
        found.samples = in_turns(peers, max(_LEAST_ROUNDS, min(rounds, affordable)), calls)
        found.counters = by_name[LAZY][0].answer_to("counters", 10, seconds=_ANSWER_S)
    return found


def _verdict(checks: Sequence[Check]) -> str:
    for verdict in (MISSED, WITHIN):
        if texts := [check.text for check in checks if check.verdict == verdict]:
            return f"{verdict}: {', '.join(texts)}"
    return REACHED


def _aims_of(checks: Sequence[Check]) -> str:
    return "; ".join(f"{check.value:.2f} of {check.text} (<= {check.limit:.2f})" for check in checks)


def _matrix(title: str, cells: Sequence[Measured]) -> Table:
    columns = [
        "condition",
        "mode",
        "p50 ms",
        "CPU ms",
        "CPU fused ms",
        "compile fused ms",
        "/ best CPU",
        "aims",
        "verdict",
    ]
    table = Table(title, columns)
    for cell in cells:
        if cell.failed:
            table.rows.append([cell.condition, "FAILED", *[""] * (len(table.columns) - 2)])
            table.notes.append(f"{cell.condition}: FAILED: {cell.failed}")
            continue
        for mode in MODES:
            if mode in cell.refused:
                table.rows.append([cell.condition, mode, "can't be captured", *[""] * (len(table.columns) - 3)])
                table.notes.append(f"{cell.condition}, {mode}: {cell.refused[mode]}")
                continue
            checks = cell.checks(mode)
            row: list[Cell] = [cell.condition, mode]
            of = (mode, CPU, FUSED, COMPILED)
            row += [Spread.of(cell.samples[p].done, 1e3) if p in cell.samples else "" for p in of]
            row += [cell.ratio(mode, (CPU, FUSED)), _aims_of(checks), _verdict(checks)]
            table.rows.append(row)
        recorded, in_recipes = cell.counters["ops_recorded"], cell.counters["ops_in_recipes"]
        flushed, early = cell.counters["graphs_flushed"], cell.counters.get("graphs_started_early", 0)
        ratio = cell.ratio(AGAIN, (FUSED,))
        table.notes.append(
            f"{cell.condition}: {len(cell.samples[CPU].done)} rounds; CPU fused against itself {ratio.median:.2f} "
            f"({ratio.low:.2f} to {ratio.high:.2f}), so that the spread is {cell.spread() - 1:.1%}; of lazy operators "
            f"{in_recipes / max(recorded, 1):.1%} in recipes, {flushed / 10:g} graphs a step, {early / 10:g} of them "
            "started early."
        )
    return table


def _figure(cells: Sequence[Measured]) -> Table:
    """The matrix as one number: lazy mode's time as a part of the best CPU peer's. A row for each cell that loses."""
    ratios = {c.name: c.ratio(LAZY, (CPU, FUSED, COMPILED)) for c in cells if not c.failed and LAZY in c.samples}
    table = Table("Lazy mode / the best CPU peer, cells above 1.0", ["cell", "lazy / best CPU peer"])
    losing = sorted((name for name in ratios if ratios[name].median > 1), key=lambda name: -ratios[name].median)
    table.rows += [[name, ratios[name]] for name in losing]
    if ratios:
        worst = max(ratios, key=lambda name: ratios[name].median)
        mean = statistics.geometric_mean(ratio.median for ratio in ratios.values())
        table.notes.append(
            f"Geometric mean of {len(ratios)} cells: {mean:.2f}; worst: {worst}, {ratios[worst].median:.2f}."
        )
    return table


def _cell(work: str, condition: Condition, rounds: int, seconds: float, recipes: str) -> Measured:
    """A cell as it was measured; one that fails says so."""
    try:
        return part(f"{work}, {condition.name}", _measure, work, condition, rounds, seconds, recipes)
    except Exception as error:  # one cell's failure leaves the others what was measured
        lines = str(error).splitlines() or [repr(error)]
        # The first line and the last, which say what it was; all of it is on stderr.
        cell = Measured(work, condition.name, failed=" ... ".join(dict.fromkeys((lines[0], lines[-1]))))
        _say(f"{cell.name} FAILED: {type(error).__name__}: {error}")
        return cell


def machines(rounds: int) -> list[Table]:
    """The matrix, and the cells that lose."""
    quick = rounds < ROUNDS_TO_QUOTE
    start = time.monotonic()
    deadline = start + 60 * (_QUICK_MINUTES if quick else _MINUTES)
    plan = _QUICK if quick else _ALL
    cells: list[Measured] = []
    left_out: list[str] = []
    recipes = tempfile.TemporaryDirectory()  # of all cells, so that a graph is compiled once
    for number, (work, name) in enumerate(plan):
        condition = _BY_NAME[name]
        weights = [_BY_NAME[n].at_once for _, n in plan[number:]]
        left = deadline - time.monotonic()
        # What the other cells don't need they leave to those after them.
        seconds = max(_LEAST_CELL_S, 1.5 * left * condition.at_once / sum(weights))
        if left < _LEAST_CELL_S * condition.at_once:
            left_out.append(f"{work}, {name}")
            continue
        before = time.monotonic()
        cell = _cell(work, condition, rounds, seconds, recipes.name)
        cells.append(cell)
        _say(f"{number + 1} of {len(plan)}: {cell.name}: {time.monotonic() - before:.0f} s")
    recipes.cleanup()
    figure = _figure(cells)
    figure.notes += [f"{c.name} ({c.title})." for c in CONDITIONS if c.name != c.title]
    if left_out:
        figure.notes.append(f"Left out, since the time was over: {'; '.join(left_out)}.")
    if quick:
        figure.notes.append(f"--quick: only {'; '.join(f'{w}, {c}' for w, c in plan)}; no torch.compile.")
    figure.notes.append(f"Took {(time.monotonic() - start) / 60:.1f} minutes.")
    return [
        figure,
        *(_matrix(WORKS[work].title, own) for work in WORKS if (own := [c for c in cells if c.work == work])),
    ]
