"""lazy: whole training steps in lazy mode beside everything that PyTorch offers on the CPU.

Each peer trains in a process of its own. "As written" is the best of the peers with the optimizer that the script
asks for; "tuned" the best whose author also sets fused=True. With one thread the recipe leaves the host a core of two.
"""

from contextlib import ExitStack
from typing import Any

from benchmarks import models
from benchmarks.models import Workload
from benchmarks.parts import part
from benchmarks.report import Table
from benchmarks.timing import ROUNDS_TO_QUOTE, Peer, Spread, check_losses, in_turns
from benchmarks.training_process import Child

_WARM_UP = 6
PEERS: dict[str, dict[str, Any]] = {
    "hpu, lazy": {"device": "hpu", "lazy": True},
    "hpu, lazy, one thread": {"device": "hpu", "lazy": True, "threads": 1},
    "hpu, eager": {"device": "hpu"},
    "CPU": {},
    "CPU, fused": {"fused": True},
    "compile": {"compiled": "model"},
    "compile, fused": {"compiled": "model", "fused": True},
    "compile both": {"compiled": "both"},
}
CASES = (
    (models.MLP, 200, ">= 1.7 as written, >= 1.3 tuned"),
    (models.WIDE_MLP, 3, ">= 1.6 both"),
    (models.GPT_WIDE, 2, ">= 1.5 both"),
    (models.VIT, 2, ">= 1.4 both"),
    (models.GPT_SMALL, 6, ">= 1.2 as written, >= 1.0 tuned"),
    (models.BERT, 4, ">= 1.1 as written, >= 1.0 tuned"),
    (models.CONVNET, 4, ">= 1.0 both"),
    (models.RESNET, 4, ">= 1.0 both"),
)
# ResNet has many layers, and a recipe takes over in its first steps. In the wide MLP one of a million inputs of ReLU is
# 0 to rounding, so a library decides whether its gradient is 0.
_SENSITIVE = (models.RESNET, models.WIDE_MLP)
# To see that it runs, without those whose time is that of the compilers of recipes and of Inductor.
_QUICK_PEERS = ("hpu, lazy", "hpu, eager", "CPU", "compile", "compile both")
_QUICK_CASES = (CASES[0], CASES[6])


def _measure(workload: Workload, rounds: int, calls: int, aim: str) -> Table:
    names = tuple(PEERS) if rounds >= ROUNDS_TO_QUOTE else _QUICK_PEERS
    with ExitStack() as stack:
        children = {name: stack.enter_context(Child(workload, **PEERS[name])) for name in names}
        losses = {name: child.losses(_WARM_UP) for name, child in children.items()}
        for name in children:
            # Compiled convolutions and statistics round in an order of their own, as another number of threads does.
            alike = 3 if "compile" in name or "thread" in name or workload in _SENSITIVE else _WARM_UP
            check_losses(losses["hpu, lazy"], losses[name], f"{workload.title}, hpu, lazy beside {name}", alike)
        found = in_turns([Peer(name, turn=child.turn) for name, child in children.items()], rounds, calls)
        counters = children["hpu, lazy"].counters(10)

    recorded, in_recipes = counters["ops_recorded"], counters["ops_in_recipes"]
    share = in_recipes / max(recorded, 1)
    table = Table(
        f"{workload.title}: {recorded // 10} operators a step, {share:.1%} of them in recipes, "
        f"{counters['external_kernels'] // 10} calls of library kernels a step",
        ["peer", "host ms", "done ms", "this / hpu, lazy", "faults a step"],
    )
    lazy = found["hpu, lazy"]
    for name, samples in found.items():
        table.rows.append([name, *samples.spreads(1e3), samples.ratio_to(lazy), Spread.of(samples.faults).median])

    def best(peers: list[str]) -> str:
        name = min(peers, key=lambda n: Spread.of(found[n].done).median)
        return f"{found[name].ratio_to(lazy).median:.2f} x ({name})"

    on_cpu = [name for name in names if not name.startswith("hpu")]
    table.notes.append(
        f"As written: {best([n for n in on_cpu if 'fused' not in n])}; tuned: {best(on_cpu)}. Aim: {aim}."
    )
    return table


def lazy(rounds: int) -> list[Table]:
    """Steps of MLPs, GPTs, ViT, BERT, ConvNet and ResNet with AdamW."""
    cases = CASES if rounds >= ROUNDS_TO_QUOTE else _QUICK_CASES
    return [part(workload.title, _measure, workload, rounds, calls, aim) for workload, calls, aim in cases]
