"""One rank of the benchmark `distributed`."""

import atexit
import os
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import openhpu
from benchmarks import models
from openhpu import hpu

WORKLOADS = {"mlp": models.MLP, "gpt": models.GPT_SMALL}


class Rank:
    """A rank on `device`, whose process group is Gloo's for the CPU and hccl for hpu."""

    step: Callable[[], object]

    def __init__(self, device: str) -> None:
        torch.set_num_threads(1)
        atexit.register(os._exit, 0)  # ranks end at different times
        dist.init_process_group("gloo" if device == "cpu" else "hccl")
        self.device = device
        self.sync = hpu.synchronize if device == "hpu" else lambda: None

    def prepare(self, seconds: float) -> bool:
        """More steps, until all of lazy mode's graphs have recipes, or for so many seconds. Whether they have."""
        end = time.monotonic() + seconds
        while True:
            before = openhpu.counters()["recipe_misses"]
            for _ in range(5):
                self.step()
            self.sync()
            missing = float(openhpu.counters()["recipe_misses"] != before)
            seen = torch.tensor([missing, float(time.monotonic() > end)], device=self.device)
            dist.all_reduce(seen)
            left, over = seen.tolist()
            if not left or over:
                return not left
            openhpu.wait_for_recipes(5.0)

    def seconds(self, call: Callable[[], object], times: int) -> float:
        """Seconds a call."""
        self.sync()
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(times):
            call()
        self.sync()
        return (time.perf_counter() - begin) / times

    def train(self, steps: int) -> float:
        """Seconds a step."""
        return self.seconds(self.step, steps)

    def counters(self, steps: int) -> dict[str, int]:
        """The device's counters over so many steps."""
        self.sync()
        openhpu.reset_counters()
        self.train(steps)
        return openhpu.counters()

    def start(self, kind: str) -> list[float]:
        """Set a training up ("mlp ddp", "gpt fsdp", ...) and make 50 steps, each rank on half of a batch; losses."""
        name, wrapped = kind.split()
        training = WORKLOADS[name].training(self.device)
        half = len(training.inputs) // 2
        rank = dist.get_rank()
        training.inputs = training.inputs[rank * half : (rank + 1) * half].contiguous()
        training.target = training.target[rank * half : (rank + 1) * half].contiguous()
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
        """Seconds an all_reduce of so many bytes, each waited for."""
        x = torch.ones(nbytes // 4, device=self.device)

        def reduced() -> None:
            dist.all_reduce(x)
            self.sync()

        for _ in range(3):
            reduced()
        return self.seconds(reduced, times)
