"""graphs: replays of captured graphs beside what else runs the same model on this CPU.

The device's replays run in this process, each peer on the CPU in one of its own. Peers that are not installed (ONNX
Runtime, OpenVINO: `pip install openhpu[benchmarks]`) are left out, with a note. Outputs are compared before times
are taken.
"""

import copy
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor

import openhpu
from benchmarks import children, inference_probe
from benchmarks.parts import part
from benchmarks.report import Table, table_of
from benchmarks.timing import CLOSE, ROUNDS_TO_QUOTE, Peer, Spread, check_equal, in_turns
from openhpu import hpu


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
    table.rows.append(["host time", Spread.of(found.host, 1e6), "<= 3"])
    table.rows.append(["until done", Spread.of(waited.done, 1e6), "<= 15"])
    table.notes.append("as a recipe" if graph.describe()["recipe"] else "NODE BY NODE: no recipe was made")
    return table


def _peer(stack: ExitStack, number: int, name: str, expected: Tensor) -> Peer | str:
    """A peer in a process of its own, whose output is `expected`; or why it is left out."""
    child = stack.enter_context(children.Peer("inference_probe:Inference", name, number, torch.get_num_threads()))
    with tempfile.NamedTemporaryFile() as file:
        if lacking := child.answer_to("start", file.name):
            return f"{name} left out: {lacking}."
        check_equal(torch.load(file.name), expected, f"{inference_probe.cases()[number].title}, {name}", **CLOSE)
    return Peer(name, turn=lambda calls: tuple(child.answer_to("turn", calls)))


def _inference(number: int, rounds: int) -> Table:
    case = inference_probe.cases()[number]
    with torch.no_grad(), ExitStack() as stack:
        expected = case.model(case.x)
        given = case.x.to("hpu")
        copied = copy.deepcopy(case.model).to("hpu")
        graph, result = _captured(lambda: copied(given))
        check_equal(result, expected, case.title, **CLOSE)
        peers = [Peer("hpu, replay", graph.replay, on_hpu=True), Peer("hpu, eager", copied, (given,), on_hpu=True)]
        notes = ["The replay is a recipe." if graph.describe()["recipe"] else "The replay runs NODE BY NODE."]
        for name in inference_probe.PEERS:
            peer = _peer(stack, number, name, expected)
            if isinstance(peer, Peer):
                peers.append(peer)
            else:
                notes.append(peer)
        found = in_turns(peers, rounds, case.calls)
    notes += ["Each peer on the CPU in a process of its own.", f"Aim: {case.aim}."]
    return table_of(case.title, found, "CPU", notes)


def graphs(rounds: int) -> list[Table]:
    """Replay overhead, inference of three models.

    Few rounds, to see that it runs, leave out the transformer: its time is that of compilers.
    """
    quick = rounds < ROUNDS_TO_QUOTE
    tables = [part("overhead", overhead, rounds)]
    for number, case in enumerate(inference_probe.cases()[: 2 if quick else None]):
        tables.append(part(case.title, _inference, number, rounds))
    return tables
