"""machines: training steps in each mode under the conditions that machines and scripts have.

Each peer trains in a process of its own, all under the same condition, in turns. A step's time (p50) is the median over
the rounds, of the round's median where each step ends in a read, elsewhere of the time until a round's steps were done,
divided by their number: without a read the host is ahead, and steps have no ends that one could see. "Best CPU" is the
faster of the CPU device as written and with fused AdamW. The latter runs in two processes: what three rounds of four of
them differ is the spread, and a value beyond its aim counts as a miss only where it is beyond that, too.
"""

import importlib.util
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch

from benchmarks import children, timing
from benchmarks.machines_probe import WORKS
from benchmarks.parts import part
from benchmarks.quota import group
from benchmarks.report import Cell, Table
from benchmarks.timing import ROUNDS_TO_QUOTE, Peer, Samples, Spread, in_turns
from benchmarks.trainer_probe import FIRST


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
    ("MLP", ALL), ("MLP", READ), ("MLP", "one core"), ("GPT", ALL), ("GPT", READ), ("ConvNet", ALL),
    ("MLP", "1.5 cores"), ("MLP", "last batch"), ("MLP", "2 at once"), ("MLP", "DataLoader"),
)  # fmt: skip

EAGER, LAZY, REPLAY = "hpu, eager", "hpu, lazy", "hpu, replay"
MODES = (EAGER, LAZY, REPLAY)
CPU, FUSED, AGAIN, COMPILED = "CPU", "CPU, fused", "CPU, fused, again", "compile, fused"
_FUSED = {"optimizer": {"fused": True}}
PEERS: dict[str, dict[str, Any]] = {
    EAGER: {"device": "hpu", "mode": "eager"}, LAZY: {"device": "hpu", "mode": "lazy"},
    REPLAY: {"device": "hpu", "mode": "replay"}, CPU: {}, FUSED: _FUSED, AGAIN: _FUSED,
    COMPILED: {"compiled": True, **_FUSED},
}  # fmt: skip

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


def _in_short(error: Exception) -> str:
    """The first line and the last, which say what it was; all of it is on stderr."""
    lines = str(error).splitlines() or [repr(error)]
    return " ... ".join(dict.fromkeys((lines[0], lines[-1])))


def _say(text: str) -> None:
    print(f"machines: {text}", file=sys.stderr, flush=True)


# Aims


@dataclass(frozen=True)
class Check:
    """A value beside its aim: an aim of the list below, what it says here, the value, its limit, the spread."""

    aim: str
    text: str
    value: float
    limit: float
    spread: float = 1.0

    @property
    def verdict(self) -> str:
        """Whether the aim is reached; beyond it by no more than the spread counts for neither."""
        if self.value <= self.limit:
            return REACHED
        return WITHIN if self.value <= self.limit * self.spread else MISSED


_A_P50 = "lazy and replay, any condition: p50 <= 1.0 of the best of CPU eager and fused"
_A_READ = "lazy, the loss read: MLP 1.2 x, others 1.0 x the best CPU peer as tuned"
_A_READ_EAGER = "lazy, the loss read: never slower than hpu eager"
_A_EAGER = "eager, any condition: MLP <= 1.25, others <= 1.05"
_A_WRITTEN = "lazy, all cores: MLP 1.7 x, GPT 1.1 x, ConvNet 1.0 x the CPU as written"
_A_TUNED = "lazy, all cores: MLP 1.3 x, others 1.0 x the best CPU peer as tuned"
_A_TRAINER_CPU = "Hugging Face Trainer, 300 steps: lazy <= 0.6 of CPU"
_A_TRAINER_EAGER = "Hugging Face Trainer, 300 steps: lazy <= hpu eager"
_A_TRAINER_FIRST = f"Hugging Face Trainer, first {FIRST} steps: lazy <= 1.2 of hpu eager"
AIMS = (
    _A_P50, _A_READ, _A_READ_EAGER, _A_EAGER, _A_WRITTEN, _A_TUNED, _A_TRAINER_CPU, _A_TRAINER_EAGER,
    _A_TRAINER_FIRST,
)  # fmt: skip
_AS_WRITTEN = {"MLP": 1.7, "GPT": 1.1, "ConvNet": 1.0}


def spread_of(first: Samples, second: Samples) -> float:
    """A factor, at least 1, within which three of four rounds' ratios of two equal peers lie, or their inverses."""
    off = sorted(abs(math.log(a / b)) for a, b in zip(first.done, second.done, strict=True))
    return math.exp(off[math.ceil(0.75 * len(off)) - 1])


# Cells


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
        return spread_of(self.samples[AGAIN], self.samples[FUSED])

    def checks(self, mode: str) -> list[Check]:
        """The aims of a mode in this cell."""
        found: list[Check] = []

        def add(aim: str, peers: Sequence[str], limit: float, text: str) -> None:
            found.append(Check(aim, text, self.ratio(mode, peers).median, limit, self.spread()))

        if mode == EAGER:
            add(_A_EAGER, (CPU, FUSED), 1.25 if self.work == "MLP" else 1.05, "best CPU")
            return found
        add(_A_P50, (CPU, FUSED), 1.0, "best CPU")
        if mode == LAZY and self.condition == READ:
            add(_A_READ, (FUSED, COMPILED), 1 / 1.2 if self.work == "MLP" else 1.0, "tuned")
            add(_A_READ_EAGER, (EAGER,), 1.0, "hpu eager")
        if mode == LAZY and self.condition == ALL:
            add(_A_WRITTEN, (CPU,), 1 / _AS_WRITTEN[self.work], "as written")
            add(_A_TUNED, (FUSED, COMPILED), 1 / 1.3 if self.work == "MLP" else 1.0, "tuned")
        return found


class _Copies:
    """A peer's process, or several that do the same at once."""

    def __init__(self, name: str, children: list[children.Peer]):
        self.name, self.children = name, children

    def all(self, within: float, question: str, *numbers: float) -> list[Any]:
        """Each copy's answer. They begin at once."""
        for child in self.children:
            child.ask(question, *numbers)
        return [child.answer(within) for child in self.children]


def _check_losses(what: str, losses: dict[str, list[float]]) -> None:
    """Losses agree, but for what orders of additions that AdamW's first steps amplify."""
    expected = torch.tensor(losses[CPU])
    for name, found in losses.items():
        theirs = torch.tensor(found)
        close = torch.allclose(theirs[:3], expected[:3], rtol=1e-4, atol=1e-5)
        if not close or not torch.allclose(theirs, expected, rtol=5e-3, atol=1e-5):
            raise AssertionError(f"{what}: losses {found} of {name}, {losses[CPU]} of the CPU")


def _measure(work: str, condition: Condition, rounds: int, seconds: float, recipes: str) -> Measured:
    """Measure a cell, in about so many seconds. `recipes`: the folder of recipes that all cells share.

    Raises ChildError, OSError where a quota can't be set, or AssertionError where losses differ.
    """
    found, start = Measured(work, condition.name), time.monotonic()
    core = min(os.sched_getaffinity(0)) if condition.one_core else None
    with ExitStack() as stack:
        quota = str(stack.enter_context(group(condition.quota))) if condition.quota else ""
        groups = []
        for name, options in PEERS.items():
            if name == COMPILED and not (condition.compiled and rounds >= ROUNDS_TO_QUOTE):
                continue
            asked = {
                "work": work, "condition": condition.name, "device": "cpu",
                "mode": "eager", "compiled": False, "optimizer": {}, "quota": quota, **options,
            }  # fmt: skip
            environment = {
                **condition.environment, "PT_HPU_LAZY_MODE": str(int(asked["mode"] == "lazy")),
                "PT_HPU_RECIPE_CACHE_CONFIG": f"{recipes},False,2048",
            }  # fmt: skip
            peers_of_it = [
                stack.enter_context(children.Peer("machines_probe:Script", asked, environment=environment, core=core))
                for _ in range(condition.at_once)
            ]
            groups.append(_Copies(name, peers_of_it))
        everyone = [child for copies in groups for child in copies.children]
        for child in everyone:
            stack.callback(child.end)  # all of them, before the first is waited for
        for child in everyone:  # all at once: it is imports, mostly
            child.ask("losses", _WARM_UP)
        losses: dict[str, list[float]] = {}
        for copies in list(groups):
            answers = [child.answer(_START_S) for child in copies.children]
            if refused := next((a["refused"] for a in answers if "refused" in a), ""):
                found.refused[copies.name] = refused
                groups.remove(copies)
                continue
            losses |= {copies.name if i == 0 else f"{copies.name} ({i})": a["losses"] for i, a in enumerate(answers)}
        _check_losses(found.name, losses)

        turn_s = _TURN_S * condition.at_once
        # The times in these answers were taken while others started.
        by_name = {copies.name: copies for copies in groups}
        step = max(answer["step"] for answer in by_name[CPU].all(_ANSWER_S, "losses", 0))
        calls = max(_LEAST_CALLS, min(300, round(turn_s / step)))
        limit = turn_s * _SLOWEST

        def peer(copies: _Copies) -> Peer:
            def turn(calls: int) -> timing.Turn:
                times = copies.all(limit * len(copies.children) + _ANSWER_S, "turn", calls, limit)
                done = statistics.mean(times) * calls
                return done, done, 0

            return Peer(copies.name, turn=turn)

        peers = [peer(copies) for copies in groups]
        before = time.monotonic()
        for one in peers:
            one.take_turn(calls)
        took = time.monotonic() - before
        left = seconds - (time.monotonic() - start)
        affordable = int(left * 0.9 / max(took, 1e-3)) - 2
        found.samples = in_turns(peers, max(_LEAST_ROUNDS, min(rounds, affordable)), calls)
        found.counters = by_name[LAZY].all(_ANSWER_S, "counters", 10)[0]
    return found


# Tables


def _ms(samples: Samples) -> Spread:
    return Spread.of(samples.done, 1e3)


def _verdict(checks: Sequence[Check]) -> str:
    for verdict in (MISSED, WITHIN):
        if texts := [check.text for check in checks if check.verdict == verdict]:
            return f"{verdict}: {', '.join(texts)}"
    return REACHED


def _aims_of(checks: Sequence[Check]) -> str:
    return "; ".join(f"{check.value:.2f} of {check.text} (<= {check.limit:.2f})" for check in checks)


def _matrix(title: str, cells: Sequence[Measured]) -> Table:
    columns = [
        "condition", "mode", "p50 ms", "CPU ms", "CPU fused ms", "compile fused ms", "/ best CPU", "aims", "verdict",
    ]  # fmt: skip
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
            row += [_ms(cell.samples[p]) if p in cell.samples else "" for p in (mode, CPU, FUSED, COMPILED)]
            row += [cell.ratio(mode, (CPU, FUSED)), _aims_of(checks), _verdict(checks)]
            table.rows.append(row)
        recorded, in_recipes = cell.counters["ops_recorded"], cell.counters["ops_in_recipes"]
        flushed, early = cell.counters["graphs_flushed"], cell.counters.get("graphs_started_early", 0)
        table.notes.append(
            f"{cell.condition}: {len(cell.samples[CPU].done)} rounds; CPU fused against itself "
            f"{_spread_text(cell)}; of lazy operators {in_recipes / max(recorded, 1):.1%} in recipes, {flushed / 10:g} "
            f"graphs a step, {early / 10:g} of them started early."
        )
    return table


def _spread_text(cell: Measured) -> str:
    ratio = cell.samples[AGAIN].ratio_to(cell.samples[FUSED])
    return f"{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f}), so that the spread is {cell.spread() - 1:.1%}"


def _aims(checks: Sequence[tuple[str, Check]], notes: Sequence[str]) -> Table:
    table = Table("Aims, over all cells", ["aim", "cells", REACHED, WITHIN, MISSED, "missed in"])
    for aim in AIMS:
        mine = [(where, check) for where, check in checks if check.aim == aim]
        counts = [sum(check.verdict == verdict for _, check in mine) for verdict in (REACHED, WITHIN, MISSED)]
        missed = "; ".join(f"{where}: {c.value:.2f}, not {c.limit:.2f}" for where, c in mine if c.verdict == MISSED)
        table.rows.append([aim, len(mine) or "none measured", *counts, missed])
    table.notes += notes
    table.notes.append(
        "Other aims of the graph engine are measured elsewhere: ResNet by `lazy`, the MLP12's replay by `graphs`, the "
        "recording of x + y by `recording`."
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


# The Trainer

_T_STEPS, _T_ROUNDS, _T_TOTAL_S = 300, 3, 300.0
_T_COLD, _T_WARM = "hpu, lazy, no recipes yet", "hpu, lazy, recipes on disk"
_T_PEERS = {CPU: "cpu", "CPU, again": "cpu", EAGER: "hpu", _T_COLD: "hpu", _T_WARM: "hpu"}


def _trainer_run(model: str, peer: str, folder: str) -> dict[str, float]:
    environment = {"PT_HPU_RECIPE_CACHE_CONFIG": folder, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    environment["PT_HPU_LAZY_MODE"] = str(int(peer in (_T_COLD, _T_WARM)))
    return children.probe("trainer_probe:train", model, _T_PEERS[peer], _T_STEPS, **environment)


def _trainer(models: Sequence[str], rounds: int, deadline: float) -> tuple[Table, list[tuple[str, Check]]]:
    columns = ["model", "peer", "ms a step", f"first {FIRST}, ms", "/ CPU", "/ hpu eager", "first / eager's first"]
    title = f"Hugging Face Trainer, {_T_STEPS} steps of 8 x 16, fp32, 2 layers of width 64"
    table = Table(title, [*columns, "verdict"])
    checks: list[tuple[str, Check]] = []
    missing = [name for name in ("transformers", "accelerate") if importlib.util.find_spec(name) is None]
    for number, model in enumerate(models):
        if missing:
            table.rows.append([model, f"not installed: {', '.join(missing)}", *[""] * 6])
            continue
        steps, firsts = ({peer: Samples() for peer in _T_PEERS} for _ in range(2))
        losses: dict[str, float] = {}
        share = time.monotonic() + (deadline - time.monotonic()) / (len(models) - number)
        took = 0.0
        try:
            for turn in range(rounds):
                start = time.monotonic()
                if start + took > share:
                    break
                with tempfile.TemporaryDirectory() as folder:
                    # The lazy ones stay in their order: the first writes what the second finds.
                    for peer in _T_PEERS if turn % 2 == 0 else (*list(_T_PEERS)[3:], *list(_T_PEERS)[:3]):
                        found = _trainer_run(model, peer, folder)
                        steps[peer].done.append(found["step"])
                        firsts[peer].done.append(found["first"])
                        losses[peer] = found["loss"]
                took = time.monotonic() - start
                _say(f"Trainer, {model}: round {turn + 1} of {rounds} in {took:.0f} s")
            if not losses:
                table.rows.append([model, "left out: no time", *[""] * 6])
                continue
            for peer, loss in losses.items():
                if not math.isclose(loss, losses[CPU], rel_tol=1e-2):
                    raise AssertionError(f"loss {loss} of {peer}, {losses[CPU]} of the CPU")
        except Exception as error:
            _say(f"Trainer, {model} FAILED: {type(error).__name__}: {error}")
            table.rows.append([model, "FAILED", *[""] * 6])
            table.notes.append(f"{model}: FAILED: {_in_short(error)}")
            continue
        spread = spread_of(steps["CPU, again"], steps[CPU])
        spread_first = spread_of(firsts["CPU, again"], firsts[CPU])
        for peer in _T_PEERS:
            to_cpu, to_eager = steps[peer].ratio_to(steps[CPU]), steps[peer].ratio_to(steps[EAGER])
            first = firsts[peer].ratio_to(firsts[EAGER])
            mine = []
            if peer in (_T_COLD, _T_WARM):
                mine = [
                    Check(_A_TRAINER_CPU, "CPU", to_cpu.median, 0.6, spread),
                    Check(_A_TRAINER_EAGER, "hpu eager", to_eager.median, 1.0, spread),
                    Check(_A_TRAINER_FIRST, "first steps", first.median, 1.2, spread_first),
                ]
            checks += [(f"{model}, {peer}", check) for check in mine]
            verdict = _verdict(mine) if mine else ""
            table.rows.append([model, peer, _ms(steps[peer]), _ms(firsts[peer]), to_cpu, to_eager, first, verdict])
        table.notes.append(f"{model}: {len(steps[CPU].done)} rounds; the CPU against itself: spread {spread - 1:.1%}.")
    return table, checks


# All


def machines(rounds: int) -> list[Table]:
    """The matrix, the Trainer, the aims."""
    quick = rounds < ROUNDS_TO_QUOTE
    start = time.monotonic()
    deadline = start + 60 * (_QUICK_MINUTES if quick else _MINUTES)
    plan = _QUICK if quick else _ALL
    trainer_models = ("GPT-2",) if quick else ("GPT-2", "BERT")
    installed = all(importlib.util.find_spec(name) is not None for name in ("transformers", "accelerate"))
    for_trainer = (min(_T_TOTAL_S, 0.2 * (deadline - start))) if installed else 0.0

    cells: list[Measured] = []
    left_out: list[str] = []
    recipes = tempfile.TemporaryDirectory()  # of all cells, so that a graph is compiled once
    for number, (work, name) in enumerate(plan):
        condition = _BY_NAME[name]
        weights = [_BY_NAME[n].at_once for _, n in plan[number:]]
        left = deadline - for_trainer - time.monotonic()
        # What the other cells don't need they leave to those after them.
        seconds = max(_LEAST_CELL_S, 1.5 * left * condition.at_once / sum(weights))
        if left < _LEAST_CELL_S * condition.at_once:
            left_out.append(f"{work}, {name}")
            continue
        before = time.monotonic()
        try:
            cell = part(f"{work}, {name}", _measure, work, condition, rounds, seconds, recipes.name)
        except Exception as error:  # one cell's failure leaves the others what was measured
            cell = Measured(work, name, failed=_in_short(error))
            _say(f"{cell.name} FAILED: {type(error).__name__}: {error}")
        cells.append(cell)
        _say(f"{number + 1} of {len(plan)}: {cell.name}: {time.monotonic() - before:.0f} s")

    recipes.cleanup()
    trainer, trainer_checks = part("Trainer", _trainer, trainer_models, 1 if quick else _T_ROUNDS, deadline)
    checks = [
        (f"{cell.name}, {mode}", check)
        for cell in cells
        if not cell.failed
        for mode in MODES
        if mode in cell.samples
        for check in cell.checks(mode)
    ] + trainer_checks
    notes = [f"{c.name} ({c.title})." for c in CONDITIONS if c.name != c.title]
    if failed := [cell.name for cell in cells if cell.failed]:
        notes.append(f"FAILED: {'; '.join(failed)}.")
    if left_out:
        notes.append(f"Left out, since the time was over: {'; '.join(left_out)}.")
    if quick:
        notes.append(
            f"--quick: only {'; '.join(f'{w}, {c}' for w, c in plan)}; no torch.compile; of the Trainer GPT-2, once."
        )
    notes.append(f"Took {(time.monotonic() - start) / 60:.1f} minutes.")
    tables = [_matrix(WORKS[work].title, own) for work in WORKS if (own := [c for c in cells if c.work == work])]
    return [_figure(cells), *tables, trainer, _aims(checks, notes)]
