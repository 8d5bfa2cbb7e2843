"""insight: the cost of watching: the event source, the collector of `openhpu run`, and `openhpu run` as a whole.

Aims, in percent of a step: `openhpu run` 3 of the GPT example's, a listener 1, events without a listener 0.5.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path
from typing import Any

from benchmarks.children import PROBE_S
from benchmarks.models import GPT_SMALL, MLP
from benchmarks.parts import part
from benchmarks.report import Table
from benchmarks.timing import ROUNDS_TO_QUOTE, Peer, Spread, Turn, in_turns
from commands import ROOT, child
from openhpu import events, hpu
from openhpu.observe.insight.collector import Collector

_STEPS_IN_A_ROW = 10
_EXAMPLE_STEPS, _QUICK_EXAMPLE_STEPS = 400, 60


def insight_cost(rounds: int) -> list[Table]:
    """In one process, then from outside."""
    return [
        part("listening", _listening, rounds),
        part("unwanted", _unwanted, rounds),
        part("whole runs", _whole_runs, rounds),
    ]


def _listening(rounds: int) -> Table:
    """Steps of the MLP and the GPT, while nobody listens, while somebody does, and while a run is collected."""
    table = Table(
        f"Cost of listening, ms a training step until done, {_STEPS_IN_A_ROW} steps in a row",
        ["model", "nobody", "nobody, again", "empty listener of all", "collecting",
         "again, % more", "listener, % more", "collecting, % more"],
    )  # fmt: skip
    for workload in (MLP, GPT_SMALL):
        step = workload.training("hpu").step
        with tempfile.TemporaryDirectory() as folder:
            collector = Collector(Path(folder))
            held: list[events.Subscription] = []
            peers = [
                Peer("nobody", step, on_hpu=True),
                Peer("again", step, on_hpu=True),
                Peer("listener", step, on_hpu=True,
                     before=lambda held=held: held.append(events.subscribe(None, lambda event: None)),  # type: ignore[misc]
                     after=lambda held=held: events.unsubscribe(held.pop())),  # type: ignore[misc]
                Peer("collecting", step, on_hpu=True, before=collector.listen, after=collector.ignore),
            ]  # fmt: skip
            found = in_turns(peers, rounds, _STEPS_IN_A_ROW)
        ms = [Spread.of(samples.done, 1e3) for samples in found.values()]
        ratios = [_more(found[name].done, found["nobody"].done) for name in ("again", "listener", "collecting")]
        table.rows.append([workload.title, *ms, *ratios])
    table.notes.append('"again" compares a step with itself: what the others are uncertain by.')
    return table


def _unwanted(rounds: int) -> Table:
    """Events that nobody wants cannot be left out of the core to compare. So: how many a step has, times a bound."""
    table = Table(
        "Events that nobody listens to, at most",
        ["model", "events a step", "ns an event, with the call from Python", "ms a step", "share of a step, %"],
    )
    call = _seconds_of(lambda: events.publish("benchmark"), rounds)
    for workload in (MLP, GPT_SMALL):
        step = workload.training("hpu").step
        for _ in range(3):
            step()
        hpu.synchronize()
        with _counted() as seen:
            for _ in repeat(None, _STEPS_IN_A_ROW):
                step()
            hpu.synchronize()
        number = sum(seen) / _STEPS_IN_A_ROW
        seconds = _seconds_of(step, rounds, _STEPS_IN_A_ROW)
        share = Spread(*(100 * number * value / seconds.median for value in (call.median, call.low, call.high)))
        table.rows.append([workload.title, number, _times(call, 1e9), _times(seconds, 1e3), share])
    table.notes.append("Counters are not among them: they are always on, one relaxed increment each.")
    return table


def _whole_runs(rounds: int) -> Table:
    """The GPT example as a user runs it, by Python and by `openhpu run`."""
    long = rounds >= ROUNDS_TO_QUOTE
    steps, rounds = (_EXAMPLE_STEPS, rounds // 4) if long else (_QUICK_EXAMPLE_STEPS, 1)
    table = Table(
        f"examples/gpt_chars.py, {steps} steps in a process of its own",
        ["mode", "python, ms a step", "openhpu run, ms a step", "step, % more", "python, s in all",
         "openhpu run, s in all", "in all, % more"],
    )  # fmt: skip
    for mode, lazy in (("eager", "0"), ("lazy", "1")):
        with tempfile.TemporaryDirectory() as folder:
            environment = {
                **os.environ,
                "PT_HPU_LAZY_MODE": lazy,
                "OPENHPU_MODULE_LOCKS": "0",
                # The first turns, which do not count, fill it.
                "PT_HPU_RECIPE_CACHE_CONFIG": f"{folder}/recipes,False,1024",
            }
            watched = ["-m", "openhpu", "run", "--report", f"{folder}/page.html"]
            peers = [
                Peer("python", turn=_example([], folder, environment)),
                Peer("run", turn=_example(watched, folder, environment)),
            ]
            found = in_turns(peers, rounds, steps)
        plain, run = found["python"], found["run"]
        table.rows.append(
            [mode, Spread.of(plain.done, 1e3), Spread.of(run.done, 1e3), _more(run.done, plain.done),
             Spread.of(plain.host, steps), Spread.of(run.host, steps), _more(run.host, plain.host)]
        )  # fmt: skip
    table.notes.append(
        "A step's time is the example's own: the median over its stretches of 50. In all: from the start of the "
        "command to its end, with imports, text, and for `openhpu run` the summary and the page."
    )
    return table


def _example(prefix: list[str], folder: str, environment: dict[str, str]) -> Callable[[int], Turn]:
    """A turn: the example with so many steps; seconds in all, and the steps' seconds by the example's own clock."""
    answer = Path(folder) / "answer.json"
    command = [sys.executable, *prefix, "-m", "benchmarks.insight_probe", str(answer)]

    def turn(steps: int) -> Turn:
        start = time.perf_counter()
        ended = child.run([*command, "--steps", str(steps)], seconds=PROBE_S, env=environment, cwd=ROOT)
        seconds = time.perf_counter() - start
        if ended.code:
            raise child.ChildError(f"`{' '.join(command[1:])}`: {ended.how}; it printed:\n{ended.tail}")
        return seconds, json.loads(answer.read_text())["seconds_per_step"] * steps, 0

    return turn


@contextmanager
def _counted() -> Iterator[list[int]]:
    """A list with a 1 for each event inside."""
    seen: list[int] = []
    subscription = events.subscribe(None, lambda event: seen.append(1))
    yield seen
    events.unsubscribe(subscription)


def _seconds_of(call: Callable[[], Any], rounds: int, calls: int = 1000) -> Spread:
    (samples,) = in_turns([Peer("alone", call, on_hpu=True)], rounds, calls).values()
    return Spread.of(samples.done)


def _more(ours: list[float], others: list[float]) -> Spread:
    """By how many percent ours exceed the others', round by round."""
    return Spread.of([100 * (a / b - 1) for a, b in zip(ours, others, strict=True)])


def _times(spread: Spread, factor: float) -> Spread:
    return Spread(spread.median * factor, spread.low * factor, spread.high * factor)
