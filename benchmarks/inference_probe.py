"""A model's inference by one peer in a process of its own, which answers questions.

ONNX Runtime and OpenVINO run the exported or translated model with its weights as constants.
"""

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from benchmarks import timing
from benchmarks.timing import Peer


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


# A call, and what makes a tensor of its result, which is not timed.
Prepared = tuple[Callable[[], Any], Callable[[Any], Tensor]]


def _cpu(model: nn.Module, x: Tensor) -> Prepared:
    return lambda: model(x), lambda result: result


def _compiled(model: nn.Module, x: Tensor) -> Prepared:
    return _cpu(cast(nn.Module, torch.compile(model)), x)


def _onnx(model: nn.Module, x: Tensor) -> bytes:
    program = torch.onnx.export(model, (x,), dynamo=True, input_names=["x"], output_names=["y"], verbose=False)
    return cast(bytes, cast(Any, program).model_proto.SerializeToString())


def _onnx_runtime(model: nn.Module, x: Tensor) -> Prepared:
    ort = importlib.import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = ort.InferenceSession(_onnx(model, x), options, providers=["CPUExecutionProvider"])
    given = {"x": x.numpy()}
    return lambda: session.run(None, given)[0], torch.from_numpy


def _openvino(model: nn.Module, x: Tensor) -> Prepared:
    ov = importlib.import_module("openvino")
    # Where the processor has bfloat16 matrices it would use them.
    options = {"INFERENCE_NUM_THREADS": torch.get_num_threads(), "INFERENCE_PRECISION_HINT": "f32"}
    compiled = ov.compile_model(ov.convert_model(model, example_input=x), "CPU", options)
    given = x.numpy()
    return lambda: compiled(given)[0], torch.from_numpy


PEERS: dict[str, Callable[[nn.Module, Tensor], Prepared]] = {
    "CPU": _cpu, "compile": _compiled, "ONNX Runtime": _onnx_runtime, "OpenVINO": _openvino,
}  # fmt: skip


class Inference:
    """A peer, with a model."""

    def __init__(self, peer: str, case: int, threads: int):
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self._name, self._case = peer, cases()[case]

    def start(self, file: str) -> str:
        """Write the output there; or say why the peer is left out."""
        if self._name not in ("CPU", "compile"):  # translators don't know its operator
            torch.backends.mha.set_fastpath_enabled(False)
        try:
            call, tensor = PEERS[self._name](self._case.model, self._case.x)
        except ImportError as error:
            return str(error)
        torch.save(tensor(call()), file)
        self._peer = Peer(self._name, call)
        return ""

    def turn(self, calls: int) -> timing.Turn:
        """A turn of so many calls."""
        return self._peer.take_turn(calls)
