"""distributed: two ranks on hpu beside two ranks on the CPU device with Gloo, each rank a process with one thread.

Peers are asked in turns; those that wait do nothing. A peer's time is its slower rank's.
"""

import atexit
import functools
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import openhpu
from benchmarks import children, models, timing
from benchmarks.parts import part
from benchmarks.report import Table
from benchmarks.timing import ROUNDS_TO_QUOTE, Samples, Spread, Turn
from commands import free_port

_RANKS = 2
_STEPS = {"mlp ddp": 40, "gpt ddp": 4, "gpt fsdp": 4}
_WORKLOADS = {"mlp": models.MLP, "gpt": models.GPT_SMALL}
_MESSAGES = {1 << 10: 60, 1 << 22: 10}
# To see that it runs: the time of the others is that of imports and of compilers.
_QUICK_STEPS = ("mlp ddp", "gpt fsdp")
# Device, and whether in lazy mode.
PEERS = {"CPU, Gloo": ("cpu", False), "hpu, eager": ("hpu", False), "hpu, lazy": ("hpu", True)}
Ranks = dict[str, list[children.Peer]]  # of each peer


def _ranks(stack: ExitStack, device: str, lazy: bool) -> list[children.Peer]:
    variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    variables |= {"WORLD_SIZE": str(_RANKS), "LOCAL_WORLD_SIZE": str(_RANKS), "PT_HPU_LAZY_MODE": str(int(lazy))}
    return [
        stack.enter_context(
            children.Peer("distributed:Rank", device, environment={**variables, "RANK": rank, "LOCAL_RANK": rank})
        )
        for rank in map(str, range(_RANKS))
    ]


def distributed(rounds: int) -> list[Table]:
    """Steps, and all_reduce of a small and a large tensor."""
    steps = Table("Two ranks, ms a step", ["step", *PEERS, "eager / CPU", "lazy / CPU"])
    messages = Table("Two ranks, us an all_reduce that is waited for", ["size", *PEERS, "eager / CPU", "lazy / CPU"])
    quick = rounds < ROUNDS_TO_QUOTE
    wait_s = 20 if quick else 60  # at most, for a training's recipes
    with ExitStack() as stack:
        ranks = functools.cache(lambda: {name: _ranks(stack, *kind) for name, kind in PEERS.items()})
        for kind, number in _STEPS.items():
            if not quick or kind in _QUICK_STEPS:
                found, note = part(kind, _steps, ranks, kind, number, rounds, wait_s)
                steps.add(kind, *row(found, 1e3))
                steps.notes.append(note)
        for nbytes, number in _MESSAGES.items():
            name = f"{nbytes >> 10} KiB"
            found = part(name, in_turns, ranks, rounds, number, "reduce", nbytes)
            messages.add(name, *row(found, 1e6))
    return [steps, messages]


def _steps(
    ranks: Callable[[], Ranks], kind: str, number: int, rounds: int, wait_s: int
) -> tuple[dict[str, Samples], str]:
    """Times of a kind of step, and a note on its losses and recipes."""
    losses = [children.ask_all(each, "start", kind)[0] for each in ranks().values()]
    apart = max(abs(a - b) / abs(b) for other in losses[1:] for a, b in zip(other, losses[0], strict=True))
    lazy = ranks()["hpu, lazy"]
    compiled = children.ask_all(lazy, "prepare", wait_s)[0]
    found = in_turns(ranks, rounds, number, "train")
    counted = children.ask_all(lazy, "counters", 4)[0]
    return found, (
        f"{kind}: losses of 50 steps differ by at most {apart:.1e} of their value; in lazy mode "
        f"{counted['ops_in_recipes']} of {counted['ops_recorded']} operators of four steps ran in recipes"
        + ("" if compiled else f" (not all were compiled after {wait_s} s)")
    )


def in_turns(ranks: Callable[[], Ranks], rounds: int, calls: int, question: str, *values: Any) -> dict[str, Samples]:
    """The peers' times."""

    def turn(each: list[children.Peer], calls: int) -> Turn:
        seconds = max(children.ask_all(each, question, *values, calls))
        return seconds, seconds, 0

    peers = [timing.Peer(name, turn=functools.partial(turn, each)) for name, each in ranks().items()]
    return timing.in_turns(peers, rounds, calls)


def row(found: dict[str, Samples], unit: float) -> list[Spread]:
    """Each peer's times, the CPU's first, and the ratios of the others to those; `unit`: of the times, in a second."""
    cpu, *others = found.values()
    return [*(Spread.of(each.done, unit) for each in found.values()), *(each.ratio_to(cpu) for each in others)]


class Rank(timing.Steps):
    """A rank on `device` in its process, whose process group is Gloo's for the CPU and hccl for hpu."""

    def __init__(self, device: str) -> None:
        torch.set_num_threads(1)
        atexit.register(os._exit, 0)  # ranks end at different times
        dist.init_process_group("gloo" if device == "cpu" else "hccl")
        self.device = device
        self.on_hpu = device == "hpu"

    def prepare(self, seconds: float) -> bool:
        """More steps, until all of lazy mode's graphs have recipes, or for so many seconds. Whether they have."""
        end = time.monotonic() + seconds
        while True:
            before = openhpu.counters()["recipe_misses"]
            for _ in range(5):
                self.step()
            self.wait()
            missing = float(openhpu.counters()["recipe_misses"] != before)
            seen = torch.tensor([missing, float(time.monotonic() > end)], device=self.device)
            dist.all_reduce(seen)
            left, over = seen.tolist()
            if not left or over:
                return not left
            openhpu.wait_for_recipes(5.0)

    def seconds(self, call: Callable[[], object], times: int) -> float:
        """Seconds of so many calls."""
        self.wait()
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(times):
            call()
        self.wait()
        return time.perf_counter() - begin

    def train(self, steps: int) -> float:
        """Seconds of so many steps."""
        return self.seconds(self.step, steps)

    def start(self, kind: str) -> list[float]:
        """Set a training up ("mlp ddp", "gpt fsdp", ...) and make 50 steps, each rank on half of a batch; losses."""
        name, wrapped = kind.split()
        training = _WORKLOADS[name].training(self.device)
        rank = dist.get_rank()
        training.inputs = training.inputs.chunk(_RANKS)[rank].contiguous()
        training.target = training.target.chunk(_RANKS)[rank].contiguous()
        training.model = self._wrapped(training.model, wrapped)
        training.optimizer = torch.optim.AdamW(training.model.parameters(), lr=1e-3, fused=True)
        self.step = training.step
        losses = []
        for _ in range(50):
            loss = training.step().clone()
            dist.all_reduce(loss)
            losses.append(loss.item() / dist.get_world_size())
        return losses

    def _wrapped(self, model: nn.Module, how: str) -> Any:
        if how == "ddp":
            return nn.parallel.DistributedDataParallel(model)
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        return fully_shard(model, mesh=init_device_mesh(self.device, (dist.get_world_size(),)))

    def reduce(self, nbytes: int, times: int) -> float:
        """Seconds of so many times an all_reduce of so many bytes, each waited for."""
        x = torch.ones(nbytes // 4, device=self.device)

        def reduced() -> None:
            dist.all_reduce(x)
            self.wait()

        for _ in range(3):
            reduced()
        return self.seconds(reduced, times)
