"""soak: what hours of mixed work leave behind, and one recipe cache under processes that are killed.

A round trains a GPT with a checkpoint that a new model goes on from, evaluates it at batch sizes and lengths that
change, captures and replays an HPU graph, calls a compiled model, reads a DataLoader's workers, and trains a ConvNet
under autocast. What a round takes for the first time (recipes, kernels, libraries) is not growth, so slopes are those
of the second half. `python -m benchmarks.soak --minutes 240` works for longer than the benchmark does.
"""

import argparse
import gc
import json
import math
import os
import random
import re
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import openhpu
from benchmarks import children, models
from benchmarks.parts import part
from benchmarks.report import Table
from commands import child
from openhpu import hpu
from openhpu.observe import events

MODES = {"eager": "0", "lazy": "1"}
PROCESSES, KILLED_EACH_S = 8, 3.0
_MIB = 2**20
_COUNTED = ("descriptors", "threads", "children", "files")


def soak(minutes: int) -> list[Table]:
    """Both modes for `minutes` each, then a third of it the cache."""
    left = Table(
        f"{minutes} minutes of mixed work: from the middle to the end",
        ["mode", "rounds", "resident MiB", "growth", *(counted := ("device", *_COUNTED)), "aim"],
        notes=["device: KiB that are allocated. files: below the process's home."],
    )
    for mode, lazy in MODES.items():
        seen = part(f"{minutes} minutes, {mode}", _in_process, 60 * minutes, lazy)["seen"]
        half = seen[len(seen) // 2 :]
        resident = [state["resident"] / _MIB for state in half]
        others = [f"{half[0][key]} to {half[-1][key]}" for key in counted]
        left.add(mode, len(seen), resident[-1], f"{growth(resident):+.2%}", *others, "+1 % at most; equal")
    killed = part("processes that are killed", shared_cache, 20 * minutes)
    title = f"{PROCESSES} processes with one recipe cache, one of them killed each {KILLED_EACH_S:.0f} s"
    cache = Table(title, [*killed, "aim"])
    cache.add(*killed.values(), "0 wrong, 0 compiled, 0 left")
    return [left, cache]


def growth(values: Sequence[float]) -> float:
    """By how much of the median they grow from the first to the last: the median of the slopes of all pairs."""
    slopes = [(values[j] - values[i]) / (j - i) for i, j in combinations(range(len(values)), 2)]
    return statistics.median(slopes or [0.0]) * (len(values) - 1) / statistics.median(values)


def _in_process(seconds: float, lazy: str) -> dict[str, Any]:
    """What `work` returns, in a process of its own with a recipe cache and a home of its own."""
    with tempfile.TemporaryDirectory() as home:
        work = children.start(seconds + 300, "soak:work", seconds, home, **_environment(home, lazy))
        return children.returned(work)


def _environment(home: str, lazy: str) -> dict[str, str]:
    return {"HOME": home, "XDG_CACHE_HOME": home, "PT_HPU_LAZY_MODE": lazy}


def work(seconds: float, home: str) -> dict[str, Any]:
    """Rounds of all jobs for this time; what is there after each."""
    seen: list[dict[str, int]] = []
    jobs = Jobs(Path(home) / "checkpoint.pt")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        jobs.round()
        seen.append(_state(Path(home)))
        print(json.dumps(seen[-1]), file=sys.stderr, flush=True)
    return {"seen": seen}


def _state(home: Path) -> dict[str, int]:
    openhpu.wait_for_recipes()
    hpu.synchronize()
    gc.collect()
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="utf-8").split()
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return {
        "resident": 1024 * int(re.findall(r"^RssAnon:\s+(\d+) kB$", status, re.MULTILINE)[0]),
        "device": hpu.memory_allocated() // 1024,
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "children": len(children),
        "files": sum(len(files) for _, _, files in os.walk(home)),
    }


class Jobs:
    """The work of a round. Sizes are drawn from few, so that their graphs come again."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint, self.draw = checkpoint, random.Random(0)
        self.compiled: tuple[Any, Any] | None = None  # the model, and what torch.compile makes of it

    def round(self) -> None:
        """Each job once."""
        for job in (self.train, self.evaluate, self.serve, self.compile, self.load, self.autocast):
            job()

    def train(self) -> None:
        """A GPT that goes on from the checkpoint of the last round."""
        training = models.GPT_SMALL.training("hpu")
        if self.checkpoint.exists():
            held = torch.load(self.checkpoint, map_location="hpu")
            training.model.load_state_dict(held["model"])
            training.optimizer.load_state_dict(held["optimizer"])
        losses = [training.step() for _ in range(10)]
        if not torch.stack(losses).isfinite().all().item():
            raise AssertionError(f"losses of the training: {losses}")
        held = {"model": training.model.state_dict(), "optimizer": training.optimizer.state_dict()}
        torch.save(held, self.checkpoint)

    def evaluate(self) -> None:
        """Batches and lengths that change."""
        model = models.GPT_SMALL.model().to("hpu").eval()
        with torch.no_grad():
            for _ in range(8):
                batch, length = self.draw.choice((1, 2, 4, 8)), self.draw.choice((8, 16, 32, 64))
                model(torch.randint(models.CHARACTERS, (batch, length), device="hpu")).argmax(-1).cpu()

    def serve(self) -> None:
        """A graph, captured and replayed."""
        model, graph = models.mlp().to("hpu").eval(), hpu.HPUGraph()
        x = torch.randn(self.draw.choice((1, 8, 32)), 64, device="hpu")
        with torch.no_grad():
            model(x)
            with hpu.graph(graph):
                out = model(x)
            for _ in range(20):
                x.copy_(torch.randn(x.shape))
                graph.replay()
                _close(out, model(x), "a replayed graph")

    def compile(self) -> None:
        """A model by torch.compile, compiled in the first round. Each compilation would leave 150 KiB behind, on the
        CPU device with the backend aot_eager too."""
        if not self.compiled:
            model = models.mlp().to("hpu")
            self.compiled = model, torch.compile(model, backend="hpu_backend", dynamic=False)
        model, compiled = self.compiled
        for batch in (2, 5):
            x = torch.randn(batch, 64, device="hpu")
            _close(compiled(x), model(x), "a compiled model")

    def load(self) -> None:
        """Batches from workers."""
        loader = DataLoader(TensorDataset(torch.arange(64)), batch_size=8, num_workers=2)
        if (total := sum(batch.to("hpu").sum().item() for (batch,) in loader)) != 64 * 63 // 2:
            raise AssertionError(f"the loader's batches sum up to {total}")

    def autocast(self) -> None:
        """A ConvNet in bfloat16."""
        training = models.CONVNET.training("hpu")
        with torch.autocast("hpu", dtype=torch.bfloat16):
            for _ in range(3):
                training.step().item()


def _close(ours: Tensor, expected: Tensor, what: str) -> None:
    if not torch.allclose(ours, expected, rtol=1e-4, atol=1e-5):
        raise AssertionError(f"{what}: {(ours - expected).abs().max().item()} from the plain call")


def deep_mlp(depth: int) -> float:
    """The sum of the outputs of a few lazy calls."""
    torch.manual_seed(depth)
    model = nn.Sequential(*(layer for _ in range(depth) for layer in (nn.Linear(32, 32), nn.Tanh()))).to("hpu")
    total = 0.0
    with torch.no_grad():
        for _ in range(4):
            total += model(torch.ones(4, 32, device="hpu")).sum().item()
            openhpu.wait_for_recipes()
    return total


def some_depths(seconds: float) -> dict[str, Any]:
    """The results of models of 1 to 6 layers; no more than fit into the time."""
    recipes: Counter[str] = Counter()
    for kind in ("recipe_loaded", "graph_compilation"):
        events.subscribe(kind, lambda event: recipes.update([event.kind]))
    end = time.monotonic() + seconds
    found: dict[str, float] = {}
    for depth in random.sample(range(1, 7), 6):
        if time.monotonic() < end:
            found[str(depth)] = deep_mlp(depth)
    return {"found": found, "loaded": recipes["recipe_loaded"], "compiled": recipes["graph_compilation"]}


def shared_cache(seconds: float) -> dict[str, float]:
    """Processes that share a cache, some of which are killed; then one that must find everything."""
    with tempfile.TemporaryDirectory() as home:
        start = partial(children.start, 600, "soak:some_depths", 120, **_environment(home, MODES["lazy"]))
        expected = children.returned(start())["found"]
        killed, ended, wrong = _under_fire(seconds, start, expected)
        last = children.returned(start())
        if last["found"].keys() != expected.keys():
            raise AssertionError(f"a new process computed {len(last['found'])} of {len(expected)} models in its time")
        wrong += not _agree(last["found"], expected)
        recipes = Path(home) / "openhpu" / "recipes"
        entries = [path for path in recipes.iterdir() if len(path.name) == 64]
        left = [path for path in recipes.iterdir() if len(path.name) != 64 and path.is_dir()]
        return {
            "seconds": seconds,
            "killed": killed,
            "ended": ended,
            "wrong": wrong,
            "recipes": len(entries),
            "loaded by a new process": last["loaded"],
            "compiled by it": last["compiled"],
            "files left": len(left),
        }


def _agree(found: Mapping[str, float], expected: Mapping[str, float]) -> bool:
    """Whether the results are right to float32's rounding: a recipe and single operators differ in the last bits."""
    return all(math.isclose(found[key], expected[key], rel_tol=1e-5, abs_tol=1e-4) for key in found)


def _under_fire(
    seconds: float, start: Callable[[], child.Child], expected: Mapping[str, float]
) -> tuple[int, int, int]:
    """How many were killed, ended by themselves, and were wrong."""
    killed = ended = wrong = 0
    running = [start() for _ in range(PROCESSES)]
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            time.sleep(KILLED_EACH_S)
            for i, process in enumerate(running):
                if process.poll():
                    ended += 1
                    wrong += not _agree(children.returned(process)["found"], expected)
                    running[i] = start()
            victim = random.randrange(PROCESSES)
            with running[victim] as process:
                process.send_signal(signal.SIGKILL)
                process.wait()
            running[victim] = start()
            killed += 1
    finally:
        for process in running:
            process.__exit__()
    return killed, ended, wrong


def main() -> None:
    """Soak for as long as asked, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=int, default=30, help="of each mode; a third of it for the cache")
    for table in soak(max(1, parser.parse_args().minutes)):
        print(f"\n{table.title}\n{table.as_text()}")


if __name__ == "__main__":
    main()
