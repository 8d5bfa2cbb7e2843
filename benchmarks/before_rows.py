"""Rows of `python -m benchmarks before`: each measures the openhpu that its Python imports.

`python -m benchmarks.before_rows NAME` answers two questions (commands/answering.py): `prepare`, and `measure`, whose
answer has microseconds for each measure. Two commits are measured with the same rows, so a row may only use names of
openhpu that both have.
"""

import functools
import importlib
import json
import statistics
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from commands import ROOT, child
from commands.answering import serve

Measure = Callable[[], dict[str, float]]
EAGER, LAZY = {"PT_HPU_LAZY_MODE": "0"}, {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "background"}
_US = 1e6
_ROUNDS = 9
_IMPORTS = 3
_RECIPES_S = 240.0
_RANKS_S = 60.0


@dataclass(frozen=True)
class Row:
    """What is measured, and in which processes.

    `make`: makes the function that measures, in the process. `processes`: so many at once, of which the slowest counts.
    `ranks`: whether they are ranks of one process group. `one_core`: whether they have one core. `loads`: whether the
    device is loaded first.
    """

    make: Callable[[], Measure]
    environment: Mapping[str, str] = field(default_factory=lambda: EAGER)
    processes: int = 1
    ranks: bool = False
    one_core: bool = False
    loads: bool = True


def _in_turns(calls: Mapping[str, tuple[Callable[[], Any], int]]) -> Measure:
    """Measures calls, each so many times in a row: until they have returned (host), and until they are done."""
    from benchmarks.timing import Peer, in_turns

    def measure() -> dict[str, float]:
        found = {}
        for name, (call, times) in calls.items():
            samples = in_turns([Peer(name, call, on_hpu=True)], _ROUNDS, times)[name]
            found[f"{name}, host"] = statistics.median(samples.host) * _US
            found[f"{name}, done"] = statistics.median(samples.done) * _US
        return found

    return measure


def _settled(step: Callable[[], Any]) -> None:
    """Call a step until what recurs is compiled and lazy mode knows how the loop goes."""
    import openhpu
    from openhpu import hpu

    for _ in range(2):
        for _ in range(20):
            step()
        hpu.synchronize()
        openhpu.wait_for_recipes(_RECIPES_S)


def dispatch() -> Measure:
    """Small operators in eager mode."""
    import torch

    x = torch.randn(8, 8, device="hpu")
    row = x[0]
    calls: dict[str, Callable[[], Any]] = {
        "add": lambda: torch.add(x, x),
        "mm": lambda: torch.mm(x, x),
        "softmax": lambda: torch.softmax(x, -1),
        "add_": lambda: x.add_(0.0),
        "linear": lambda: torch.nn.functional.linear(x, x, row),
        "view": lambda: x.view(64),
        "empty": lambda: torch.empty(8, 8, device="hpu"),
    }
    return _in_turns({name: (call, 10_000) for name, call in calls.items()})


def reads() -> Measure:
    """Reads of a number, and copies between host and device."""
    import torch

    x, y = torch.ones(1, device="hpu"), torch.ones(64)
    on_hpu = torch.ones(64, device="hpu")
    calls: dict[str, Callable[[], Any]] = {
        "item after add": lambda: (x + 1).item(),
        "to the device": lambda: y.to("hpu"),
        "from the device": lambda: on_hpu.cpu(),
    }
    return _in_turns({name: (call, 1000) for name, call in calls.items()})


def recording() -> Measure:
    """The script's time in lazy mode, for an operator."""
    from benchmarks.recording import record

    def measure() -> dict[str, float]:
        found = record()
        return {
            "record x + y": statistics.median(found["record"]),
            "flush": statistics.median(found["flush"]),
            "x + y on the CPU device": statistics.median(found["CPU"]),
        }

    return measure


def graphs() -> Measure:
    """Replays of a graph of one operator, of an MLP of 12 layers, and of 8 elementwise operators."""
    import torch

    from benchmarks.graphs import captured, cases
    from openhpu import hpu

    torch.set_grad_enabled(False)
    x = torch.ones(8, device="hpu")
    one, _ = captured(lambda: x + 1)

    def until_done() -> None:
        one.replay()
        hpu.synchronize()

    calls: dict[str, tuple[Callable[[], Any], int]] = {
        "one operator": (one.replay, 500),
        "one operator, waited for": (until_done, 200),
    }
    for case, name in zip(cases(), ("MLP12", "8 elementwise"), strict=False):
        model, given = case.model.to("hpu"), case.x.to("hpu")
        graph, _ = captured(functools.partial(model, given))
        calls[name] = graph.replay, case.calls
    return _in_turns(calls)


def steps(title: str, calls: int, read: bool = False, compiled: bool = False) -> Measure:
    """Training steps of a model; with `read`, each reads the loss."""
    import torch

    from benchmarks import models

    workload = next(workload for workload in models.WORKLOADS if workload.title == title)
    training = workload.training("hpu")
    if compiled:
        training.model = torch.compile(training.model, backend="hpu_backend")  # type: ignore[assignment]

    def step() -> None:
        loss = training.step()
        if read:
            loss.item()

    _settled(step)
    return _in_turns({"step": (step, calls)})


def compiled_call() -> Measure:
    """The call of a compiled function of one operator."""
    import torch

    x = torch.ones(16, device="hpu")

    def plus_one(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    call = functools.partial(torch.compile(plus_one, backend="hpu_backend"), x)
    _settled(call)
    return _in_turns({"x + 1": (call, 500)})


def training_of_ranks(kind: str, number: int, device: str = "hpu") -> Measure:
    """Steps of a rank; see `distributed.Rank`."""
    from benchmarks.distributed import Rank

    rank = Rank(device)
    rank.start(kind)
    if device == "hpu":
        rank.prepare(_RANKS_S)

    def measure() -> dict[str, float]:
        seconds = []
        for _ in range(_ROUNDS):
            seconds.append(rank.train(number) / number)
        return {"step": statistics.median(seconds) * _US}

    return measure


def collectives() -> Measure:
    """Small collectives from Python."""
    import torch
    import torch.distributed as dist

    from benchmarks.distributed import Rank

    rank = Rank("hpu")
    x = torch.ones(8, device="hpu")
    both = torch.ones(16, device="hpu")

    def reduced() -> None:
        dist.all_reduce(x)
        rank.wait()

    calls: dict[str, Callable[[], Any]] = {
        "all_reduce": lambda: dist.all_reduce(x),
        "broadcast": lambda: dist.broadcast(x, 0),
        "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(both, x),
        "all_reduce, waited for": reduced,
    }

    def measure() -> dict[str, float]:
        found = {}
        for name, call in calls.items():
            rank.seconds(call, 20)
            found[name] = statistics.median(rank.seconds(call, 200) / 200 for _ in range(_ROUNDS)) * _US
        return found

    return measure


_START = """
import json, time
import torch
clock = time.perf_counter
times = [clock()]
import habana_frameworks.autoload as backend
getattr(backend, "__autoload")()
times.append(clock())
torch.empty(1, device="hpu")
times.append(clock())
(torch.ones(1, device="hpu") + 1).item()
times.append(clock())
print(json.dumps([after - before for before, after in zip(times, times[1:])]))
"""


def start() -> Measure:
    """What the device adds to `import torch`, the first allocation, and the first result, in new processes."""

    def once() -> list[float]:
        command = [sys.executable, "-c", _START]
        ended = child.run(command, seconds=60.0, cwd=ROOT, split=True).checked("a first allocation")
        return json.loads(ended.output)  # type: ignore[no-any-return]

    def measure() -> dict[str, float]:
        found = zip(*(once() for _ in range(_IMPORTS)), strict=True)
        names = ("import", "first allocation", "first result")
        return {name: statistics.median(times) * _US for name, times in zip(names, found, strict=True)}

    once()  # writes byte code
    return measure


_MLP = "MLP 64-128-128-10, batch 32"
_GPT = "GPT 4 layers, d 128, batch 8 x 64"
_CONVNET = "ConvNet 5 conv+bn, batch 32 x 3 x 32 x 32"
_RESNET = "ResNet-18's layers, batch 8 x 3 x 32 x 32"


def _of(make: Callable[..., Measure], *arguments: Any, **options: Any) -> Callable[[], Measure]:
    return functools.partial(make, *arguments, **options)


ROWS = {
    "start": Row(start, loads=False),
    "dispatch": Row(dispatch),
    "reads": Row(reads),
    "eager-mlp": Row(_of(steps, _MLP, 50)),
    "recording": Row(recording, LAZY),
    "graphs": Row(graphs),
    "lazy-mlp": Row(_of(steps, _MLP, 100), LAZY),
    "lazy-mlp-read": Row(_of(steps, _MLP, 50, read=True), LAZY),
    "lazy-mlp-one-core": Row(_of(steps, _MLP, 100), LAZY, one_core=True),
    "lazy-mlp-two-processes": Row(_of(steps, _MLP, 100), LAZY, processes=2),
    "lazy-gpt": Row(_of(steps, _GPT, 6), LAZY),
    "lazy-gpt-read": Row(_of(steps, _GPT, 6, read=True), LAZY),
    "lazy-convnet": Row(_of(steps, _CONVNET, 4), LAZY),
    "lazy-resnet": Row(_of(steps, _RESNET, 4), LAZY),
    "compile": Row(compiled_call),
    "compile-mlp": Row(_of(steps, _MLP, 50, compiled=True)),
    "compile-gpt": Row(_of(steps, _GPT, 4, compiled=True)),
    "collective": Row(collectives, processes=2, ranks=True),
    "ddp": Row(_of(training_of_ranks, "mlp ddp", 40), processes=2, ranks=True),
    "ddp-lazy": Row(_of(training_of_ranks, "mlp ddp", 40), LAZY, processes=2, ranks=True),
    "fsdp": Row(_of(training_of_ranks, "mlp fsdp", 20), processes=2, ranks=True),
    "fsdp-lazy": Row(_of(training_of_ranks, "mlp fsdp", 20), LAZY, processes=2, ranks=True),
    "fsdp-gloo": Row(_of(training_of_ranks, "mlp fsdp", 20, device="cpu"), processes=2, ranks=True),
}


class Process:
    """It, in its process."""

    def __init__(self, name: str) -> None:
        self._row = ROWS[name]
        self._measure: Measure = dict

    def prepare(self) -> None:
        """All that comes before times are taken."""
        if self._row.loads:
            importlib.import_module("habana_frameworks.torch")
        self._measure = self._row.make()

    def measure(self) -> dict[str, float]:
        """Microseconds of each measure."""
        return self._measure()


if __name__ == "__main__":
    serve(functools.partial(Process, sys.argv[1]))
