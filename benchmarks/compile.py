"""compile: torch.compile and compile_step on hpu beside torch.compile on the CPU."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import openhpu
from benchmarks import models, report
from benchmarks.models import Training, Workload
from benchmarks.report import Table
from benchmarks.timing import Peer, Samples, Spread, in_turns
from openhpu import hpu

CASES: tuple[tuple[Workload, int], ...] = (
    (models.MLP, 100),
    (models.GPT_SMALL, 4),
    (models.CONVNET, 4),
    (models.RESNET, 4),
    (models.BERT, 4),
)
_RECIPES_S = 400.0


def _check_close(first: Any, second: Any, what: str) -> None:
    torch.testing.assert_close(
        [t.detach().cpu() for t in first], [t.detach().cpu() for t in second], rtol=1e-3, atol=1e-4,
        msg=lambda text: f"{what}: peers differ\n{text}",
    )  # fmt: skip


def _ready(*calls: Callable[[], Any]) -> str:
    """Call until every graph runs as a recipe; a note that says whether they do."""
    for call in calls:
        call(), call()
    openhpu.wait_for_recipes(_RECIPES_S)
    for call in calls:
        call()
    hpu.synchronize()
    openhpu.reset_counters()
    for call in calls:
        call()
    hpu.synchronize()
    alone = openhpu.counters()["ops_node_by_node"]
    return "All graphs run as recipes." if not alone else f"{alone} operators run NODE BY NODE."


def overhead(rounds: int) -> Table:
    """Host time of a compiled function of one operator."""
    on_hpu = torch.compile(lambda x: x + 1, backend="hpu_backend")
    on_cpu = torch.compile(lambda x: x + 1)
    x, given = torch.ones(16), torch.ones(16, device="hpu")
    _check_close([on_hpu(given)], [on_cpu(x)], "x + 1")
    note = _ready(lambda: on_hpu(given))
    peers = [Peer("hpu", on_hpu, (given,), on_hpu=True), Peer("Inductor, CPU", on_cpu, (x,))]
    found = in_turns(peers, rounds, 200)
    table = Table("compiled x + 1, 16 floats: host time of a call", ["peer", "host us", "done us"])
    for name, samples in found.items():
        host, done = (Spread.of([s * 1e6 for s in values]) for values in (samples.host, samples.done))
        table.rows.append([name, host, done])
    table.notes += [note, "Aim: <= Inductor's on the CPU."]
    return table


def _table(title: str, found: dict[str, Samples], base: str, notes: list[str]) -> Table:
    table = Table(title, ["peer", "host us", "done us", f"{base} / this"])
    for name, samples in found.items():
        host, done = (Spread.of([s * 1e6 for s in values]) for values in (samples.host, samples.done))
        table.rows.append([name, host, done, found[base].ratio_to(samples)])
    table.notes += notes
    return table


def _compiled(workload: Workload, device: str, **optimizer: Any) -> Training:
    training = workload.training(device, **optimizer)
    training.model.compile(backend="hpu_backend" if device == "hpu" else "inductor")
    return training


def training(workload: Workload, rounds: int, calls: int) -> Table:
    """A training step with AdamW."""
    cpu, fused, mine = _compiled(workload, "cpu"), _compiled(workload, "cpu", fused=True), _compiled(workload, "hpu")
    optimized = _compiled(workload, "cpu")
    update = torch.compile(optimized.optimizer.step)

    def with_compiled_optimizer() -> Tensor:
        optimized.optimizer.zero_grad(set_to_none=True)
        out = optimized.model(optimized.inputs)
        loss = torch.nn.functional.cross_entropy(out.flatten(0, -2), optimized.target.flatten())
        loss.backward()
        update()
        return loss.detach()

    whole = workload.training("hpu")
    step: Callable[[], Tensor] = openhpu.compile_step(whole.step)
    losses = {
        "CPU": [cpu.step() for _ in range(4)],
        "compile_step": [step() for _ in range(4)],
        "hpu": [mine.step() for _ in range(4)],
        "CPU, fused": [fused.step() for _ in range(4)],
        "CPU, compiled optimizer": [with_compiled_optimizer() for _ in range(4)],
    }
    for name, theirs in losses.items():
        _check_close(theirs, losses["CPU"], f"{workload.title}, {name}")
    note = _ready(mine.step, step)
    peers = [
        Peer("hpu, compile_step", step, on_hpu=True),
        Peer("hpu, torch.compile", mine.step, on_hpu=True),
        Peer("CPU, torch.compile", cpu.step),
        Peer("the same, fused AdamW", fused.step),
        Peer("the same, compiled AdamW", with_compiled_optimizer),
    ]
    found = in_turns(peers, rounds, calls)
    aims = "Aims: torch.compile >= 1.0; compile_step against the best peer: MLP 2.5, GPT 1.05, ConvNet 1.0."
    return _table(f"training step, {workload.title}", found, "CPU, torch.compile", [note, aims, report.ONE_PROCESS])


def inference(workload: Workload, rounds: int, calls: int) -> Table:
    """The model's forward, in evaluation mode."""
    torch.manual_seed(0)
    model = workload.model().eval()
    moved = copy.deepcopy(model).to("hpu")
    x = workload.batch()[0]
    given = x.to("hpu")
    on_cpu, on_hpu = torch.compile(model), torch.compile(moved, backend="hpu_backend")
    with torch.no_grad():
        _check_close([on_hpu(given), on_hpu(given)], [on_cpu(x), model(x)], f"{workload.title}, inference")
        note = _ready(lambda: on_hpu(given))
        peers = [Peer("hpu, torch.compile", on_hpu, (given,), on_hpu=True), Peer("CPU, torch.compile", on_cpu, (x,))]
        found = in_turns(peers, rounds, calls)
    return _table(f"inference, {workload.title}", found, "CPU, torch.compile", [note, "Aim: >= 1.0."])


def compiled(rounds: int) -> list[Table]:
    """Overhead, training steps and inference of the models. Warnings of libraries are theirs."""
    tables = [overhead(rounds)]
    for workload, calls in CASES:
        tables.append(training(workload, rounds, calls))
        tables.append(inference(workload, rounds, calls))
        torch._dynamo.reset()
    return tables
