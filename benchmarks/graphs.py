"""graphs: replays of captured graphs beside what else runs the same model on this CPU.

The device's replays run in this process, each peer on the CPU in one of its own. Peers that are not installed (ONNX
Runtime, OpenVINO: `pip install openhpu[benchmarks]`) are left out, with a note. Outputs are compared before times
are taken. ONNX Runtime and OpenVINO run the exported or translated model with its weights as constants.
"""

import copy
import importlib
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

import openhpu
from benchmarks import children
from benchmarks.parts import part
from benchmarks.report import Table, table_of
from benchmarks.timing import CLOSE, ROUNDS_TO_QUOTE, Peer, Spread, check_equal, in_turns
from openhpu import hpu


class Case(NamedTuple):
    """A model with its input; `calls`: in a turn."""

    title: str
    model: nn.Module
    x: Tensor
    calls: int
    aim: str


class Chain(nn.Module):
    """Eight elementwise operators."""

    def forward(self, x: Tensor) -> Tensor:
        y = (x * 1.5 + 0.25).tanh()
        return (y * y + x).relu().sub(0.5).sigmoid()


def _mlp12() -> nn.Module:
    layers = [nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64)) for _ in range(12)]
    return nn.Sequential(*layers)


def cases() -> list[Case]:
    """The models, with the same weights in every process."""
    torch.manual_seed(0)
    encoder = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
    return [
        Case("MLP12: 12 x (linear, gelu, layer norm), 8 x 64", _mlp12().eval(), torch.randn(8, 64), 200, ">= 10 x CPU"),
        Case("8 elementwise operators, 1 M floats", Chain().eval(), torch.randn(1 << 20), 20, ">= 2.5 x CPU"),
        Case(
            "Transformer encoder layer 256/4/1024, 2 x 64", encoder.eval(), torch.randn(2, 64, 256), 20, ">= 1.3 x CPU"
        ),
    ]


def _onnx(model: nn.Module, x: Tensor) -> bytes:
    program = torch.onnx.export(model, (x,), dynamo=True, input_names=["x"], output_names=["y"], verbose=False)
    return cast(bytes, cast(Any, program).model_proto.SerializeToString())


def _onnx_runtime(model: nn.Module, x: Tensor) -> Callable[[], Any]:
    ort = importlib.import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = ort.InferenceSession(_onnx(model, x), options, providers=["CPUExecutionProvider"])
    given = {"x": x.numpy()}
    return lambda: session.run(None, given)[0]


def _openvino(model: nn.Module, x: Tensor) -> Callable[[], Any]:
    ov = importlib.import_module("openvino")
    # Where the processor has bfloat16 matrices it would use them.
    options = {"INFERENCE_NUM_THREADS": torch.get_num_threads(), "INFERENCE_PRECISION_HINT": "f32"}
    compiled = ov.compile_model(ov.convert_model(model, example_input=x), "CPU", options)
    given = x.numpy()
    return lambda: compiled(given)[0]


# Each makes a call of a model, whose result is a tensor or an array.
PEERS: dict[str, Callable[[nn.Module, Tensor], Callable[[], Any]]] = {
    "CPU": partial,
    "compile": lambda model, x: partial(torch.compile(model), x),
    "ONNX Runtime": _onnx_runtime,
    "OpenVINO": _openvino,
}


def captured(call: Callable[[], Any]) -> tuple[hpu.HPUGraph, Any]:
    graph = hpu.HPUGraph()
    with hpu.graph(graph):
        result = call()
    graph.replay()
    openhpu.wait_for_recipes()
    graph.replay()
    hpu.synchronize()
    return graph, result


def overhead(rounds: int) -> Table:
    """A graph of one operator."""
    x = torch.ones(8, device="hpu")
    graph, _ = captured(lambda: x + 1)
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
    child = stack.enter_context(children.Peer("graphs:Inference", name, number, torch.get_num_threads()))
    with tempfile.NamedTemporaryFile() as file:
        if lacking := child.answer_to("start", file.name):
            return f"{name} left out: {lacking}."
        check_equal(torch.load(file.name), expected, f"{cases()[number].title}, {name}", **CLOSE)
    return Peer(name, turn=child.turn)


def _inference(number: int, rounds: int) -> Table:
    case = cases()[number]
    with torch.no_grad(), ExitStack() as stack:
        expected = case.model(case.x)
        given = case.x.to("hpu")
        copied = copy.deepcopy(case.model).to("hpu")
        graph, result = captured(lambda: copied(given))
        check_equal(result, expected, case.title, **CLOSE)
        peers = [Peer("hpu, replay", graph.replay, on_hpu=True), Peer("hpu, eager", copied, (given,), on_hpu=True)]
        notes = ["The replay is a recipe." if graph.describe()["recipe"] else "The replay runs NODE BY NODE."]
        for name in PEERS:
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
    for number, case in enumerate(cases()[: 2 if quick else None]):
        tables.append(part(case.title, _inference, number, rounds))
    return tables


class Inference:
    """A peer with a model, in its process."""

    def __init__(self, peer: str, case: int, threads: int):
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self._name, self._case = peer, cases()[case]

    def start(self, file: str) -> str:
        """Write the output there; or say why the peer is left out."""
        if self._name not in ("CPU", "compile"):  # translators don't know its operator
            torch.backends.mha.set_fastpath_enabled(False)
        try:
            call = PEERS[self._name](self._case.model, self._case.x)
        except ImportError as error:
            return str(error)
        torch.save(torch.as_tensor(call()), file)
        self.turn = Peer(self._name, call).take_turn
        return ""
