"""graphs, and graphs1 with one thread: replays of captured graphs beside what else runs the same model on this CPU.

Peers that are not installed (JAX, ONNX Runtime, OpenVINO: `pip install openhpu[benchmarks]`) are left out, with a note.
They run the exported or translated model with its weights as constants; outputs are compared before times are taken.
"""

from __future__ import annotations

import copy
import importlib
import os
from collections.abc import Callable
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import openhpu
from benchmarks import jax_models, models, report
from benchmarks.models import Workload
from benchmarks.report import Table
from benchmarks.timing import ROUNDS_TO_QUOTE, Peer, Spread, in_turns
from openhpu import hpu

Model = tuple[str, nn.Module, Tensor, int, str]


class Chain(nn.Module):
    """Eight elementwise operators."""

    def forward(self, x: Tensor) -> Tensor:
        y = (x * 1.5 + 0.25).tanh()
        return (y * y + x).relu().sub(0.5).sigmoid()


def _check_close(first: Any, second: Any, what: str) -> None:
    """Outputs agree but for the order of additions, which twelve layers or four steps carry on."""

    def on_cpu(value: Any) -> list[Tensor]:
        return [t.detach().cpu() for t in (value if isinstance(value, list) else [value])]

    torch.testing.assert_close(
        on_cpu(first), on_cpu(second), rtol=1e-3, atol=1e-4, msg=lambda text: f"{what}: peers differ\n{text}"
    )


def _mlp12() -> nn.Module:
    layers = [nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64)) for _ in range(12)]
    return nn.Sequential(*layers)


def _cases() -> list[Model]:
    torch.manual_seed(0)
    encoder = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
    return [
        ("MLP12: 12 x (linear, gelu, layer norm), 8 x 64", _mlp12().eval(), torch.randn(8, 64), 200, ">= 10 x CPU"),
        ("8 elementwise operators, 1 M floats", Chain().eval(), torch.randn(1 << 20), 20, ">= 2.5 x CPU"),
        ("Transformer encoder layer 256/4/1024, 2 x 64", encoder.eval(), torch.randn(2, 64, 256), 20, ">= 1.3 x CPU"),
    ]


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


def _onnx(model: nn.Module, x: Tensor) -> bytes:
    program = torch.onnx.export(model, (x,), dynamo=True, input_names=["x"], output_names=["y"], verbose=False)
    return cast(bytes, cast(Any, program).model_proto.SerializeToString())


def _onnx_runtime(model: nn.Module, x: Tensor) -> Callable[[], Any]:
    ort = importlib.import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = ort.InferenceSession(_onnx(model, x), options, providers=["CPUExecutionProvider"])
    given = {"x": x.numpy()}
    return lambda: torch.from_numpy(session.run(None, given)[0])


def _openvino(model: nn.Module, x: Tensor) -> Callable[[], Any]:
    ov = importlib.import_module("openvino")
    # Where the processor has bfloat16 matrices it would use them.
    options = {"INFERENCE_NUM_THREADS": torch.get_num_threads(), "INFERENCE_PRECISION_HINT": "f32"}
    compiled = ov.compile_model(ov.convert_model(model, example_input=x), "CPU", options)
    given = x.numpy()
    return lambda: torch.from_numpy(compiled(given)[0])


OTHERS: dict[str, Callable[[nn.Module, Tensor], Callable[[], Any]]] = {
    "ONNX Runtime": _onnx_runtime,
    "OpenVINO": _openvino,
    "JAX jit": jax_models.compiled,
}


def _inference(case: Model, rounds: int) -> Table:
    title, model, x, calls, aim = case
    compiled = torch.compile(model)
    with torch.no_grad():
        expected = model(x)
        given = x.to("hpu")
        copied = copy.deepcopy(model).to("hpu")
        graph, result = _captured(lambda: copied(given))
        _check_close(result, expected, title)
        peers = [
            Peer("hpu, replay", graph.replay, on_hpu=True),
            Peer("hpu, eager", copied, (given,), on_hpu=True),
            Peer("CPU", model, (x,)),
            Peer("compile", lambda: compiled(x)),
        ]
        notes = ["The replay is a recipe." if graph.describe()["recipe"] else "The replay runs NODE BY NODE."]
        for name, prepare in OTHERS.items():
            fast = torch.backends.mha.get_fastpath_enabled()
            torch.backends.mha.set_fastpath_enabled(False)  # translators don't know its operator
            try:
                call = prepare(model, x)
            except ImportError as error:
                notes.append(f"{name} left out: {error}.")
                print(f"graphs: {name} left out: {error}", flush=True)
                continue
            finally:
                torch.backends.mha.set_fastpath_enabled(fast)
            _check_close(call(), expected, f"{title}, {name}")
            peers.append(Peer(name, call))
        _check_close(compiled(x), expected, f"{title}, compile")
        found = in_turns(peers, rounds, calls)
    return _table(title, found, notes, aim)


def _threads() -> str:
    return ", one thread" if torch.get_num_threads() == 1 else ""


def _table(title: str, found: dict[str, Any], notes: list[str], aim: str) -> Table:
    table = Table(title + _threads(), ["peer", "host us", "done us", "CPU / this"])
    for name, samples in found.items():
        host, done = (Spread.of([s * 1e6 for s in values]) for values in (samples.host, samples.done))
        table.rows.append([name, host, done, found["CPU"].ratio_to(samples)])
    table.notes += [*notes, f"Aim: {aim}."]
    return table


def _training(workload: Workload, rounds: int, calls: int, aim: str) -> Table:
    peers_of = {
        "CPU": {"device": "cpu"},
        "CPU, fused": {"device": "cpu", "fused": True},
    }
    trainings = {name: workload.training(**options) for name, options in peers_of.items()}  # type: ignore[arg-type]
    compiled = workload.training("cpu")
    fused = workload.training("cpu", fused=True)
    for training in (compiled, fused):
        # Not `model.compile()`, which compiles no forward of torch.nn's own, such as Sequential's.
        training.model = torch.compile(training.model)  # type: ignore[assignment]
    trainings |= {"compile": compiled, "compile, fused": fused}

    graphed = workload.training("hpu")
    losses = {name: [t.step() for _ in range(4)] for name, t in trainings.items()}
    mine = [graphed.step().cpu()]
    graphed.optimizer.zero_grad(set_to_none=True)
    graph = hpu.HPUGraph()
    with hpu.graph(graph):
        out = graphed.model(graphed.inputs)
        loss = F.cross_entropy(out.flatten(0, -2), graphed.target.flatten())
        loss.backward()
        graphed.optimizer.step()
    mine.append(loss.detach().cpu())
    for _ in range(2):
        graph.replay()
        mine.append(loss.detach().cpu())
    for name, theirs in losses.items():
        _check_close(theirs, mine, f"{workload.title}, {name}")
    openhpu.wait_for_recipes()
    graph.replay()
    hpu.synchronize()
    notes = ["The replay is a recipe." if graph.describe()["recipe"] else "The replay runs NODE BY NODE."]
    peers = [Peer("hpu, replay", graph.replay, on_hpu=True)]
    peers += [Peer(name, training.step) for name, training in trainings.items()]
    notes.append(report.ONE_PROCESS)
    return _table(f"training step, {workload.title}", in_turns(peers, rounds, calls), notes, aim)


def graphs(rounds: int) -> list[Table]:
    """Replay overhead, inference of three models, training steps of two.

    Few rounds, to see that it runs, leave out the two transformers: their time is that of compilers.
    """
    quick = rounds < ROUNDS_TO_QUOTE
    tables = [overhead(rounds)]
    tables += [_inference(case, rounds) for case in (_cases()[:2] if quick else _cases())]
    tables.append(_training(models.MLP, rounds, 100, ">= 2.5 x the best CPU peer"))
    if not quick:
        tables.append(_training(models.GPT_SMALL, rounds, 4, ">= 1.2 x the best peer, >= 1.05 x the best fused one"))
    return tables


def one_thread(rounds: int) -> list[Table]:
    """The same with one thread for each peer. JAX reads its setting once: in a process without the other benchmark."""
    before = torch.get_num_threads()
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    torch.set_num_threads(1)
    try:
        return graphs(rounds)
    finally:
        torch.set_num_threads(before)
