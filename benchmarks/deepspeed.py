"""deepspeed: two ranks with DeepSpeed on hpu beside two on its CPU accelerator, each a process with one thread.

Peers are asked in turns; those that wait do nothing. A peer's time is its slower rank's. Needs deepspeed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from pathlib import Path

from benchmarks.distributed import Kind, Peer, in_turns, row
from benchmarks.report import Table

# Where the tests install it, beside this environment's packages.
_FOLDER = Path(sys.prefix) / "deepspeed"
_KINDS = (Kind("CPU", "cpu"), Kind("hpu, eager", "hpu"), Kind("hpu, lazy", "hpu", lazy=True))
_MODELS = {"GPT 4 layers, d 128": 8, "GPT 8 layers, d 512 (25 M)": 2}  # steps that are timed in one turn
_CASES = [(model, precision, stage) for model in _MODELS for precision in ("bf16", "fp32") for stage in (1, 2, 3)]
# Each stage and each precision. Of a case nearly all time is that of the compilers of its recipes.
_QUICK_CASES = [(next(iter(_MODELS)), precision, stage) for precision, stage in (("bf16", 1), ("fp32", 2), ("bf16", 3))]
_QUICK = 5  # rounds, from which on all is measured


def deepspeed(rounds: int) -> list[Table]:
    """Steps of ZeRO 1 to 3, losses of 50 steps, memory of a rank, checkpoints."""
    quick = rounds < _QUICK
    wait_s = 20 if quick else 60  # at most, for a case's recipes
    columns = ["model, precision, stage", *(kind.title for kind in _KINDS)]
    steps = Table("Two ranks, ms a step", [*columns, "eager / CPU", "lazy / CPU"])
    losses = Table(
        f"Losses of {8 if quick else 50} steps beside the CPU's, of their value",
        ["model, precision, stage", "mode", "largest difference", "mean signed difference", "aims"],
    )
    memory = Table(
        "Memory of a rank, MiB",
        ["model, precision, stage", "after a step", "formula", "ratio", "after backward", "formula ", "ratio "],
    )
    checkpoints = Table("Two ranks, s a checkpoint", [*columns, "eager / CPU", "lazy / CPU"])
    if importlib.util.find_spec("deepspeed") is None and not _FOLDER.is_dir():
        steps.notes.append("Left out: deepspeed is not installed.")
        return [steps]
    if quick:
        steps.notes.append("The CPU's optimizer is PyTorch's, not DeepSpeed's.")
    paths = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(_FOLDER))))
    with contextlib.ExitStack() as stack:
        peers = [
            stack.enter_context(Peer(kind, "benchmarks.deepspeed_probe", PYTHONPATH=paths, DS_ACCELERATOR=kind.device))
            for kind in _KINDS
        ]
        for model, precision, stage in _QUICK_CASES if quick else _CASES:
            name = f"{model}, {precision}, {stage}"
            # DeepSpeed compiles its Adam for the CPU first, which takes as long as all of the rest.
            built = [not (quick and kind.device == "cpu") for kind in _KINDS]
            curves = [
                _mean(peer.ask("start", model, precision, stage, 8 if quick else 50, fused))
                for peer, fused in zip(peers, built, strict=True)
            ]
            for kind, curve in zip(_KINDS[1:], curves[1:], strict=True):
                apart = [(mine - cpu) / abs(cpu) for mine, cpu in zip(curve, curves[0], strict=True)]
                aims = "1e-2, 2e-3" if precision == "bf16" else "1e-4"
                worst = max(abs(part) for part in apart)
                losses.rows.append([name, kind.title, f"{worst:.1e}", f"{sum(apart) / len(apart):+.1e}", aims])
            prepared = peers[-1].ask("prepare", wait_s)[0]
            found = in_turns(peers, rounds, "train", _MODELS[model])
            steps.rows.append([name, *row(found, 1e3)])
            counted = peers[-1].ask("counters", 4)[0]
            steps.notes.append(
                f"{name}: in lazy mode {counted['ops_in_recipes']} of {counted['ops_recorded']} operators of "
                "four steps ran in recipes" + ("" if prepared else f" (not all were compiled after {wait_s} s)")
            )
            kept = peers[1].ask("memory")[0]
            cells: list[float] = []
            for key, formula in (("states", "formula"), ("with_gradients", "formula_with_gradients")):
                cells += [kept[key] / 2**20, kept[formula] / 2**20, kept[key] / kept[formula]]
            memory.rows.append([name, *cells])
            if precision == "bf16":
                found = in_turns(peers, max(1, rounds // 3), "checkpoint")
                checkpoints.rows.append([name, *row(found, 1.0)])
            for peer in peers:
                peer.ask("end")
    return [steps, losses, memory, checkpoints]


def _mean(curves: list[list[float]]) -> list[float]:
    return [sum(values) / len(values) for values in zip(*curves, strict=True)]
