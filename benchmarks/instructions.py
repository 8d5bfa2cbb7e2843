"""instructions: what one step of the MLP, with its loss read, costs the host, counted by Valgrind's callgrind.

Instructions are repeatable where times are not. The process has one core, so that one thread does all. The host's part
leaves out the device's commands: recipes in lazy mode, kernels in eager mode.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openhpu
from benchmarks import models
from benchmarks.children import output_of, words
from benchmarks.parts import part
from benchmarks.report import Table
from benchmarks.timing import ROUNDS_TO_QUOTE
from openhpu import hpu

_RUN_S, _ANNOTATE_S = 300.0, 60.0
_STEPS = 100
_TOOLS = ("valgrind", "callgrind_annotate", "callgrind_control")
# A peer: its device, its mode, and the function in which the device's commands run.
_PEERS = {
    "hpu, eager": ("hpu", "0", "openhpu::CallCommand::run()"),
    "hpu, lazy": ("hpu", "1", "openhpu::GraphCommand::run()"),
    "CPU, fused": ("cpu", "0", ""),
}
# Parts, by the beginning of the library's name.
_PARTS = {
    "Python": ("libpython", "python"),
    "PyTorch": ("libtorch", "libc10"),
    "openhpu": ("_C.",),
    "C and C++ libraries": ("libc.", "ld-linux", "libstdc++", "libm.", "libgomp"),
}
_LINE = re.compile(r"\s*([\d,]+) \(.*?\)\s+\S.*\[(.*)\]$")


def parts_of(annotated: str) -> Counter[str]:
    """Instructions by part, of what callgrind_annotate prints. What belongs to no part is a recipe's: "recipes"."""
    found: Counter[str] = Counter()
    for line in annotated.splitlines():
        if match := _LINE.match(line):
            library = Path(match[2]).name
            part_name = next((name for name, begin in _PARTS.items() if library.startswith(begin)), "recipes")
            found[part_name] += int(match[1].replace(",", ""))
    return found


def _counted(peer: str, whole: bool, core: int, recipes: str) -> Counter[str]:
    """Instructions of a step by part; `whole`: with the device's commands."""
    device, lazy, command = _PEERS[peer]
    environment = {
        **os.environ,
        "OPENHPU_MODULE_LOCKS": "0",
        "PT_HPU_LAZY_MODE": lazy,
        "PT_HPU_RECIPE_CACHE_CONFIG": f"{recipes},False,2048",
        "ATEN_CPU_CAPABILITY": "avx2",  # Valgrind knows no later ones
    }
    with tempfile.TemporaryDirectory() as folder:
        counting = [
            "valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes",
            f"--callgrind-out-file={folder}/out", *([f"--toggle-collect={command}"] if command and not whole else []),
            "--collect-atstart=yes",
        ]  # fmt: skip
        probe = [sys.executable, "-m", *words("instructions:steps", device)]
        output_of(["taskset", "-c", str(core), *counting, *probe], _RUN_S, environment)
        printed = output_of(["callgrind_annotate", "--threshold=100", f"{folder}/out-01"], _ANNOTATE_S, environment)
    return parts_of(printed)


def _table(peers: list[tuple[str, bool]]) -> Table:
    title = "The MLP's step with its loss read, one core, thousands of instructions"
    table = Table(title, ["peer", "what", *_PARTS, "recipes", "all"])
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as recipes, ThreadPoolExecutor(min(2, len(cores))) as pool:
        jobs: list[Any] = [
            pool.submit(_counted, peer, whole, cores[i % len(cores)], recipes) for i, (peer, whole) in enumerate(peers)
        ]
        for (peer, whole), job in zip(peers, jobs, strict=True):
            found = job.result()
            counts = [found[name] / _STEPS / 1e3 for name in (*_PARTS, "recipes")]
            table.rows.append([peer, "whole step" if whole else "host's part", *map(round, (*counts, sum(counts)))])
    return table


def instructions(rounds: int) -> list[Table]:
    """The host's part and the whole, of lazy mode where Valgrind can run recipes. Without Valgrind a table says so."""
    if missing := [tool for tool in _TOOLS if not shutil.which(tool)]:
        table = Table("Instructions of a step", ["not installed"])
        table.rows.append([", ".join(missing)])
        return [table]
    all_peers = [("hpu, lazy", False), ("hpu, eager", False), *((peer, True) for peer in _PEERS)]
    # Recipes are compiled for the processor at hand, and Valgrind knows no AVX-512.
    counted = [(peer, whole) for peer, whole in all_peers if _PEERS[peer][1] == "0"] if _has_avx512() else all_peers
    table = part("steps", _table, counted if rounds >= ROUNDS_TO_QUOTE else counted[:1])
    if counted != all_peers:
        table.notes.append("hpu, lazy: not counted, since this processor's recipes have AVX-512, which Valgrind lacks.")
    return [table]


def _has_avx512() -> bool:
    return "avx512f" in Path("/proc/cpuinfo").read_text().split()


_SETTLING = 60
_RECIPES_S, _CONTROL_S = 240.0, 60.0


def _count(state: str) -> None:
    command = ["callgrind_control", "-i", state, str(os.getpid())]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=_CONTROL_S)


def steps(device: str) -> None:
    """_STEPS steps under Valgrind, which counts once lazy mode has its recipes."""
    training = models.MLP.training(device, **({"fused": True} if device == "cpu" else {}))
    for _ in range(2):
        for _ in range(_SETTLING):
            training.step().item()
        if device == "hpu":
            hpu.synchronize()
            openhpu.wait_for_recipes(_RECIPES_S)
    _count("on")
    for _ in range(_STEPS):
        training.step().item()
    _count("off")
