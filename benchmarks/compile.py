"""compile: torch.compile and HPU graphs of whole steps on hpu beside torch.compile on the CPU."""

import copy
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch

import openhpu
from benchmarks import models
from benchmarks.children import probe
from benchmarks.models import Workload
from benchmarks.parts import part
from benchmarks.report import Table, table_of
from benchmarks.timing import CLOSE, ROUNDS_TO_QUOTE, Peer, Spread, check_equal, in_turns
from benchmarks.training_process import Child, Training
from openhpu import hpu

CASES: tuple[tuple[Workload, int], ...] = (
    (models.MLP, 100),
    (models.WIDE_MLP, 3),
    (models.GPT_SMALL, 4),
    (models.CONVNET, 4),
    (models.RESNET, 4),
    (models.BERT, 4),
)
_RECIPES_S = 400.0
_WARM_UP = 6
PEERS: dict[str, dict[str, Any]] = {
    "hpu, graph of the step": {"device": "hpu", "compiled": "graph"},
    "hpu, torch.compile": {"device": "hpu", "compiled": "model"},
    "CPU, torch.compile": {"compiled": "model"},
    "the same, fused AdamW": {"compiled": "model", "fused": True},
    "the same, compiled AdamW": {"compiled": "both"},
}
_STARTED = ("hpu, graph of the step", "hpu, torch.compile", "CPU, torch.compile")


def _ready(call: Callable[[], Any]) -> str:
    """Call until every graph runs as a recipe; a note that says whether they do."""
    call()
    call()
    openhpu.wait_for_recipes(_RECIPES_S)
    call()
    hpu.synchronize()
    openhpu.reset_counters()
    call()
    hpu.synchronize()
    return _note(openhpu.counters()["ops_node_by_node"])


def _note(alone: int) -> str:
    return "All graphs run as recipes." if not alone else f"{alone} operators run NODE BY NODE."


def overhead(rounds: int) -> Table:
    """Host time of a compiled function of one operator."""
    on_hpu = torch.compile(lambda x: x + 1, backend="hpu_backend")
    on_cpu = torch.compile(lambda x: x + 1)
    x, given = torch.ones(16), torch.ones(16, device="hpu")
    check_equal(on_hpu(given), on_cpu(x), "x + 1", **CLOSE)
    note = _ready(lambda: on_hpu(given))
    peers = [Peer("hpu", on_hpu, (given,), on_hpu=True), Peer("Inductor, CPU", on_cpu, (x,))]
    found = in_turns(peers, rounds, 200)
    table = Table("compiled x + 1, 16 floats: host time of a call", ["peer", "host us", "done us"])
    for name, samples in found.items():
        table.rows.append([name, *samples.spreads(1e6)])
    table.notes += [note, "Aim: <= Inductor's on the CPU."]
    return table


def training(workload: Workload, rounds: int, calls: int) -> Table:
    """A training step with AdamW, each peer in a process of its own."""
    # To see that it runs, the peer that differs from another by PyTorch's own optimizer alone is not needed.
    quick = rounds < ROUNDS_TO_QUOTE
    peers = {name: options for name, options in PEERS.items() if not (quick and "fused" in options)}
    with ExitStack() as stack:
        children = {name: stack.enter_context(Child(workload, **options)) for name, options in peers.items()}
        losses = {name: child.losses(_WARM_UP) for name, child in children.items()}
        for name, theirs in losses.items():
            check_equal(theirs[:4], losses["CPU, torch.compile"][:4], f"{workload.title}, {name}", **CLOSE)
        found = in_turns([Peer(name, turn=child.turn) for name, child in children.items()], rounds, calls)
        counters = {name: child.counters(5) for name, child in children.items() if peers[name].get("device") == "hpu"}
    outside = ", ".join(
        f"{(count['ops_submitted'] + count['ops_waited']) // 5} ({name})" for name, count in counters.items()
    )
    notes = [
        _note(sum(count["ops_node_by_node"] for count in counters.values())),
        f"Operators a step outside of compiled graphs: {outside}.",
        "Each peer in a process of its own.",
        "Aims: torch.compile >= 1.0; graph of the step against the best peer: MLP 2.5, GPT 1.05, ConvNet 1.0.",
    ]
    return table_of(f"training step, {workload.title}", found, "CPU, torch.compile", notes)


def inference(workload: Workload, rounds: int, calls: int) -> Table:
    """The model's forward, in evaluation mode."""
    torch.manual_seed(0)
    model = workload.model().eval()
    moved = copy.deepcopy(model).to("hpu")
    x = workload.batch()[0]
    given = x.to("hpu")
    on_cpu, on_hpu = torch.compile(model), torch.compile(moved, backend="hpu_backend")
    with torch.no_grad():
        check_equal([on_hpu(given), on_hpu(given)], [on_cpu(x), model(x)], f"{workload.title}, inference", **CLOSE)
        note = _ready(lambda: on_hpu(given))
        peers = [Peer("hpu, torch.compile", on_hpu, (given,), on_hpu=True), Peer("CPU, torch.compile", on_cpu, (x,))]
        found = in_turns(peers, rounds, calls)
    return table_of(f"inference, {workload.title}", found, "CPU, torch.compile", [note, "Aim: >= 1.0."])


def first_start(title: str, device: str, compiled: str) -> dict[str, float]:
    """Seconds of the first step, and until nothing is left to compile, in this process; see `training_process`.

    The cache folders that the environment names decide whether it is a cold or a warm start.
    """
    training = Training(title, device, compiled, 0, {})
    training.wait()
    start = time.perf_counter()
    training.step().item()
    first = time.perf_counter() - start
    training.losses(2)  # backward graphs, and steps that are captured at their second call
    training.step().item()
    ready = time.perf_counter() - start
    return {"first": first, "ready": ready, "node by node": training.counters(1)["ops_node_by_node"]}


def starts(workload: Workload, rounds: int) -> Table:
    """First starts of a training: without and with what an earlier process left on disk."""
    table = Table(
        f"first start, {workload.title.partition(' ')[0]} training step, s",
        ["peer", "first step, cold", "warm", "until compiled, cold", "warm", "warm / cold"],
    )
    alone = 0.0
    for name in _STARTED:
        device = PEERS[name].get("device", "cpu")
        # The table of the training steps starts it, too.
        if name == "hpu, torch.compile" and rounds < ROUNDS_TO_QUOTE:
            continue
        with tempfile.TemporaryDirectory() as folder:
            caches = {"PT_HPU_RECIPE_CACHE_CONFIG": f"{folder}/recipes"}
            caches["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/inductor"
            cold, *warm = (
                probe("compile:first_start", workload.title, device, PEERS[name]["compiled"], **caches)
                for _ in range(1 + max(1, rounds // 3))
            )
        first, ready = (Spread.of([run[what] for run in warm]) for what in ("first", "ready"))
        share = f"{ready.median / cold['ready']:.1%}"
        table.rows.append([name, f"{cold['first']:.2f}", first, f"{cold['ready']:.1f}", ready, share])
        alone += sum(run["node by node"] for run in (cold, *warm))
    table.notes += [
        _note(int(alone)),
        "A process each; torch.compile's imports are part of its first step. Recipes are compiled in the background, "
        "while steps run operator by operator.",
        "Aim: <= 25 % on hpu.",
    ]
    return table


def compiled(rounds: int) -> list[Table]:
    """Overhead, first starts, training steps and inference of the models. Warnings of libraries are theirs.

    Few rounds, to see that it runs, take the MLP alone and leave out two peers: their time is that of compilers.
    """
    quick = rounds < ROUNDS_TO_QUOTE
    tables = [
        part("overhead", overhead, rounds),
        part("starts", starts, models.MLP if quick else models.GPT_SMALL, rounds),
    ]
    for workload, calls in CASES[:1] if quick else CASES:
        tables.append(part(f"training step, {workload.title}", training, workload, rounds, calls))
        tables.append(part(f"inference, {workload.title}", inference, workload, rounds, calls))
        torch._dynamo.reset()
    return tables
