"""graphs, and graphs1 with one thread: replays of captured graphs beside what else runs the same model on this CPU.

The device's replays run in this process, each peer on the CPU in one of its own. Peers that are not installed (JAX,
ONNX Runtime, OpenVINO: `pip install openhpu[benchmarks]`) are left out, with a note. Outputs are compared before times
are taken.
"""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor

import openhpu
from benchmarks import inference_probe, models, timing
from benchmarks.alone import Child
from benchmarks.models import Workload
from benchmarks.parts import part
from benchmarks.report import Table
from benchmarks.timing import ROUNDS_TO_QUOTE, Peer, Spread, in_turns
from commands.answering import Answering
from openhpu import hpu


def _check_close(first: Tensor, second: Tensor, what: str) -> None:
    """Outputs agree but for the order of additions, which twelve layers or four steps carry on."""
    torch.testing.assert_close(
        first.detach().cpu(), second.detach().cpu(), rtol=1e-3, atol=1e-4,
        msg=lambda text: f"{what}: peers differ\n{text}",
    )  # fmt: skip


def _captured(call: Callable[[], Any]) -> tuple[hpu.HPUGraph, Any]:
    graph = hpu.HPUGraph()
    with hpu.graph(graph):
        result = call()
    graph.replay()
    openhpu.wait_for_recipes()
    graph.replay()
    hpu.synchronize()
    return graph, result


def _replay_of_one() -> tuple[hpu.HPUGraph, Tensor]:
    x = torch.ones(8, device="hpu")
    return _captured(lambda: x + 1)


def overhead(rounds: int) -> Table:
    """A graph of one operator."""
    graph, _ = _replay_of_one()
    found = in_turns([Peer("replay", graph.replay, on_hpu=True)], rounds, 500)["replay"]

    def until_done() -> None:
        graph.replay()
        hpu.synchronize()

    waited = in_turns([Peer("replay", until_done, on_hpu=True)], rounds, 200)["replay"]
    table = Table("replay of a graph of one operator", ["measure", "us", "aim"])
    table.rows.append(["host time", Spread.of([s * 1e6 for s in found.host]), "<= 3"])
    table.rows.append(["until done", Spread.of([s * 1e6 for s in waited.done]), "<= 15"])
    table.notes.append("as a recipe" if graph.describe()["recipe"] else "NODE BY NODE: no recipe was made")
    return table


def _peer(stack: ExitStack, number: int, name: str, expected: Tensor) -> Peer | str:
    """A peer in a process of its own, whose output is `expected`; or why it is left out."""
    asked = {"case": number, "peer": name, "threads": torch.get_num_threads(), "calm": timing.is_calm()}
    child = stack.enter_context(Answering("benchmarks.inference_probe", [json.dumps(asked)]))
    with tempfile.NamedTemporaryFile() as file:
        if lacking := child.answer_to("start", file.name):
            return f"{name} left out: {lacking}."
        _check_close(torch.load(file.name), expected, f"{inference_probe.cases()[number].title}, {name}")
    return Peer(name, turn=lambda calls: tuple(child.answer_to("turn", calls)))


def _inference(number: int, rounds: int) -> Table:
    case = inference_probe.cases()[number]
    with torch.no_grad(), ExitStack() as stack:
        expected = case.model(case.x)
        given = case.x.to("hpu")
        copied = copy.deepcopy(case.model).to("hpu")
        graph, result = _captured(lambda: copied(given))
        _check_close(result, expected, case.title)
        peers = [Peer("hpu, replay", graph.replay, on_hpu=True), Peer("hpu, eager", copied, (given,), on_hpu=True)]
        notes = ["The replay is a recipe." if graph.describe()["recipe"] else "The replay runs NODE BY NODE."]
        for name in inference_probe.PEERS:
            peer = _peer(stack, number, name, expected)
            if isinstance(peer, Peer):
                peers.append(peer)
            else:
                notes.append(peer)
        found = in_turns(peers, rounds, case.calls)
    return _table(case.title, found, [*notes, "Each peer on the CPU in a process of its own."], case.aim)


def _threads() -> str:
    return ", one thread" if torch.get_num_threads() == 1 else ""


def _table(title: str, found: dict[str, Any], notes: list[str], aim: str) -> Table:
    table = Table(title + _threads(), ["peer", "host us", "done us", "CPU / this"])
    for name, samples in found.items():
        host, done = (Spread.of([s * 1e6 for s in values]) for values in (samples.host, samples.done))
        table.rows.append([name, host, done, found["CPU"].ratio_to(samples)])
    table.notes += [*notes, f"Aim: {aim}."]
    return table


_CPU_PEERS: dict[str, dict[str, Any]] = {
    "CPU": {},
    "CPU, fused": {"fused": True},
    "compile": {"compiled": "model"},
    "compile, fused": {"compiled": "model", "fused": True},
}


def _training(workload: Workload, rounds: int, calls: int, aim: str) -> Table:
    graphed = models.Graphed(workload.training("hpu"))
    mine = [graphed().cpu() for _ in range(4)]
    openhpu.wait_for_recipes()
    graph = graphed.graph
    graph.replay()
    hpu.synchronize()
    notes = ["The replay is a recipe." if graph.describe()["recipe"] else "The replay runs NODE BY NODE."]
    threads = torch.get_num_threads()
    with ExitStack() as stack:
        peers = [Peer("hpu, replay", graph.replay, on_hpu=True)]
        for name, options in _CPU_PEERS.items():
            child = stack.enter_context(Child(workload, threads=threads, **options))
            _check_close(torch.tensor(child.losses(len(mine))), torch.stack(mine), f"{workload.title}, {name}")
            peers.append(child.peer(name))
        found = in_turns(peers, rounds, calls)
    notes.append("Each peer on the CPU in a process of its own.")
    return _table(f"training step, {workload.title}", found, notes, aim)


def graphs(rounds: int) -> list[Table]:
    """Replay overhead, inference of three models, training steps of two.

    Few rounds, to see that it runs, leave out the two transformers: their time is that of compilers.
    """
    quick = rounds < ROUNDS_TO_QUOTE
    tables = [part("overhead", overhead, rounds)]
    for number, case in enumerate(inference_probe.cases()[: 2 if quick else None]):
        tables.append(part(case.title, _inference, number, rounds))
    trainings = [(models.MLP, 100, ">= 2.5 x the best CPU peer")]
    if not quick:
        trainings.append((models.GPT_SMALL, 4, ">= 1.2 x the best peer, >= 1.05 x the best fused one"))
    tables += [part(workload.title, _training, workload, rounds, calls, aim) for workload, calls, aim in trainings]
    return tables


def one_thread(rounds: int) -> list[Table]:
    """The same with one thread for each peer."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return graphs(rounds)
    finally:
        torch.set_num_threads(before)
