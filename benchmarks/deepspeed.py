"""deepspeed: two ranks with DeepSpeed on hpu beside two on its CPU accelerator, each a process with one thread.

Peers are asked in turns; those that wait do nothing. A peer's time is its slower rank's. Needs deepspeed.
"""

import contextlib
import functools
import importlib.util
import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.distributed import Kind, Ranks, in_turns, row
from benchmarks.parts import part
from benchmarks.report import Table

# Where the tests install it, beside this environment's packages.
_FOLDER = Path(sys.prefix) / "deepspeed"
_KINDS = (Kind("CPU", "cpu"), Kind("hpu, eager", "hpu"), Kind("hpu, lazy", "hpu", lazy=True))
_MODEL = "GPT 4 layers, d 128"
_TIMED = 8  # steps in one turn
_QUICK = 5  # rounds, from which on all is measured
_PRECISIONS, _STAGES = ("bf16", "fp32"), (1, 2, 3)
# Each precision once: of a case nearly all time is that of the compilers of its recipes.
_QUICK_CASES = [("bf16", 1), ("fp32", 3)]


class Case(NamedTuple):
    """What was measured of a precision and a stage; times by peer."""

    curves: list[list[float]]  # losses
    prepared: bool
    steps: list[list[float]]
    counted: dict[str, int]
    kept: dict[str, float]
    checkpoints: list[list[float]]


def _case(peers: Callable[[], list[Ranks]], precision: str, stage: int, rounds: int, quick: bool) -> Case:
    # DeepSpeed compiles its Adam for the CPU first, which takes as long as all of the rest.
    built = [not (quick and kind.device == "cpu") for kind in _KINDS]
    curves = [
        _mean(peer.ask("start", precision, stage, 8 if quick else 50, fused))
        for peer, fused in zip(peers(), built, strict=True)
    ]
    prepared = peers()[-1].ask("prepare", 20 if quick else 60)[0]  # seconds at most, for its recipes
    steps = in_turns(peers(), rounds, "train", _TIMED)
    counted = peers()[-1].ask("counters", 4)[0]
    kept = peers()[1].ask("memory")[0]
    checkpoints = in_turns(peers(), max(1, rounds // 3), "checkpoint") if precision == "bf16" else []
    for peer in peers():
        peer.ask("end")
    return Case(curves, prepared, steps, counted, kept, checkpoints)


def deepspeed(rounds: int) -> list[Table]:
    """The GPT of the other benchmarks: steps of ZeRO 1 to 3, losses of 50 steps, memory of a rank, checkpoints."""
    quick = rounds < _QUICK
    columns = ["precision, stage", *(kind.title for kind in _KINDS)]
    steps = Table(f"{_MODEL}: two ranks, ms a step", [*columns, "eager / CPU", "lazy / CPU"])
    losses = Table(
        f"{_MODEL}: losses of {8 if quick else 50} steps beside the CPU's, of their value",
        ["precision, stage", "mode", "largest difference", "mean signed difference", "aims"],
    )
    memory = Table(
        f"{_MODEL}: memory of a rank, MiB",
        ["precision, stage", "after a step", "formula", "ratio", "after backward", "formula ", "ratio "],
    )
    checkpoints = Table(f"{_MODEL}: two ranks, s a checkpoint", [*columns, "eager / CPU", "lazy / CPU"])
    if importlib.util.find_spec("deepspeed") is None and not _FOLDER.is_dir():
        steps.notes.append("Left out: deepspeed is not installed.")
        return [steps]
    if quick:
        steps.notes.append("The CPU's optimizer is PyTorch's, not DeepSpeed's.")
    paths = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(_FOLDER))))
    with contextlib.ExitStack() as stack:
        peers = functools.cache(
            lambda: [
                stack.enter_context(Ranks(kind, "deepspeed_probe:Rank", PYTHONPATH=paths, DS_ACCELERATOR=kind.device))
                for kind in _KINDS
            ]
        )
        for precision, stage in _QUICK_CASES if quick else itertools.product(_PRECISIONS, _STAGES):
            name = f"{precision}, {stage}"
            case = part(name, _case, peers, precision, stage, rounds, quick)
            for kind, curve in zip(_KINDS[1:], case.curves[1:], strict=True):
                apart = [(mine - cpu) / abs(cpu) for mine, cpu in zip(curve, case.curves[0], strict=True)]
                aims = "1e-2, 2e-3" if precision == "bf16" else "1e-4"
                worst = max(abs(difference) for difference in apart)
                losses.add(name, kind.title, f"{worst:.1e}", f"{sum(apart) / len(apart):+.1e}", aims)
            steps.add(name, *row(case.steps, 1e3))
            steps.notes.append(
                f"{name}: in lazy mode {case.counted['ops_in_recipes']} of {case.counted['ops_recorded']} operators of "
                "four steps ran in recipes" + ("" if case.prepared else " (not all were compiled in time)")
            )
            cells: list[float] = []
            for key, formula in (("states", "formula"), ("with_gradients", "formula_with_gradients")):
                cells += [case.kept[key] / 2**20, case.kept[formula] / 2**20, case.kept[key] / case.kept[formula]]
            memory.add(name, *cells)
            if case.checkpoints:
                checkpoints.add(name, *row(case.checkpoints, 1.0))
    return [steps, losses, memory, checkpoints]


def _mean(curves: list[list[float]]) -> list[float]:
    return [sum(values) / len(values) for values in zip(*curves, strict=True)]
