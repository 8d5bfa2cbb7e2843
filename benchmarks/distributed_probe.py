"""One rank of the benchmark `distributed`, in a process of its own: answers questions until its input ends."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import openhpu
from benchmarks import models, timing
from commands.answering import serve
from openhpu import hpu

WORKLOADS = {"mlp": models.MLP, "gpt": models.GPT_SMALL}


class Rank:
    """A rank on `device`, whose process group is Gloo's for the CPU and hccl for hpu."""

    def __init__(self, device: str) -> None:
        torch.set_num_threads(1)
        dist.init_process_group("gloo" if device == "cpu" else "hccl")
        self._device = device
        self._sync: Callable[[], None] = hpu.synchronize if device == "hpu" else lambda: None
        self._trainings: dict[str, models.Training] = {}

    def start(self, kind: str) -> list[float]:
        """Set a training up ("mlp ddp", "gpt fsdp", ...) and make 50 steps, each rank on half of a batch; losses."""
        name, wrapped = kind.split()
        training = WORKLOADS[name].training(self._device)
        half = len(training.inputs) // 2
        rank = dist.get_rank()
        training.inputs = training.inputs[rank * half : (rank + 1) * half].contiguous()
        training.target = training.target[rank * half : (rank + 1) * half].contiguous()
        training.model = self._wrapped(training.model, wrapped)
        training.optimizer = torch.optim.AdamW(training.model.parameters(), lr=1e-3, fused=True)
        self._trainings[kind] = training
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

        return fully_shard(model, mesh=init_device_mesh(self._device, (dist.get_world_size(),)))

    def prepare(self, kind: str, seconds: float) -> bool:
        """More steps, until all of lazy mode's graphs have recipes, or for so many seconds. Whether they have."""
        end = time.monotonic() + seconds
        while True:
            before = openhpu.counters()["recipe_misses"]
            for _ in range(5):
                self._trainings[kind].step()
            self._sync()
            missing = float(openhpu.counters()["recipe_misses"] != before)
            seen = torch.tensor([missing, float(time.monotonic() > end)], device=self._device)
            dist.all_reduce(seen)
            left, over = seen.tolist()
            if not left or over:
                return not left
            openhpu.wait_for_recipes(5.0)

    def train(self, kind: str, steps: int) -> float:
        """Seconds a step."""
        step = self._trainings[kind].step
        self._sync()
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        self._sync()
        return (time.perf_counter() - begin) / steps

    def reduce(self, nbytes: int, times: int) -> float:
        """Seconds an all_reduce of so many bytes, each waited for."""
        x = torch.ones(nbytes // 4, device=self._device)
        for _ in range(3):
            dist.all_reduce(x)
        self._sync()
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(times):
            dist.all_reduce(x)
            self._sync()
        return (time.perf_counter() - begin) / times

    def counters(self, kind: str, steps: int) -> dict[str, int]:
        """The device's counters over so many steps."""
        self._sync()
        openhpu.reset_counters()
        self.train(kind, steps)
        return openhpu.counters()


def main() -> None:
    """Serve until the input ends."""
    timing.calm_malloc()
    serve(lambda: Rank(sys.argv[1]))
    os._exit(0)  # ranks end at different times


if __name__ == "__main__":
    main()
