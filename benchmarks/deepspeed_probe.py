"""One rank of the benchmark `deepspeed`, in a process of its own: answers questions until its input ends."""

from __future__ import annotations

import gc
import importlib
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F

import openhpu
from benchmarks import models, timing
from commands.answering import serve
from examples.gpt_chars import GPT

MODELS = {
    "GPT 4 layers, d 128": lambda: GPT(models.CHARACTERS),
    "GPT 8 layers, d 512 (25 M)": lambda: GPT(models.CHARACTERS, width=512, heads=8, layers=8),
}
BUCKET = 1_000_000


class Rank:
    """A rank of DeepSpeed's accelerator that DS_ACCELERATOR names."""

    def __init__(self, folder: str) -> None:
        torch.set_num_threads(1)
        self._deepspeed: Any = importlib.import_module("deepspeed")
        self._deepspeed.utils.logger.setLevel("ERROR")
        self._deepspeed.init_distributed()
        self._accelerator: Any = self._deepspeed.accelerator.get_accelerator()
        shared = [folder]  # the first rank's, for all
        dist.broadcast_object_list(shared)
        self._folder = Path(shared[0])

    def start(self, name: str, precision: str, stage: int, number: int, fused: bool) -> list[float]:
        """Set a training up and make `number` steps, each rank on half of a batch; this rank's losses.

        `fused`: with DeepSpeed's own Adam, not PyTorch's.
        """
        torch.manual_seed(0)
        self._before = self._allocated()
        model = MODELS[name]()
        self._stage, self._number = stage, sum(parameter.numel() for parameter in model.parameters())
        self._wide = precision == "fp32"
        zero = {"stage": stage, "reduce_bucket_size": BUCKET, "allgather_bucket_size": BUCKET}
        if stage == 3:
            zero |= {"stage3_prefetch_bucket_size": BUCKET, "stage3_param_persistence_threshold": 0}
        plain = {} if fused else {"torch_adam": True, "weight_decay": 0.0}  # which PyTorch's would have
        settings: dict[str, Any] = {
            "train_micro_batch_size_per_gpu": 4,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, **plain}},
            "zero_optimization": zero,
            "steps_per_print": 1 << 30,
        }
        if precision == "bf16":
            settings["bf16"] = {"enabled": True}
        self._engine, *_ = self._deepspeed.initialize(model=model, model_parameters=model.parameters(), config=settings)
        inputs, following = models.GPT_SMALL.batch()
        half = len(inputs) // 2
        mine = slice(dist.get_rank() * half, (dist.get_rank() + 1) * half)
        self._inputs, self._following = (
            part[mine].contiguous().to(self._engine.device) for part in (inputs, following)
        )
        return [self._step().item() for _ in range(number)]

    def _loss(self) -> torch.Tensor:
        return F.cross_entropy(self._engine(self._inputs).float().flatten(0, 1), self._following.flatten())

    def _step(self) -> torch.Tensor:
        loss = self._loss()
        self._engine.backward(loss)
        self._engine.step()
        return loss.detach()

    def prepare(self, seconds: float) -> bool:
        """More steps, until all of lazy mode's graphs have recipes, or for so many seconds. Whether they have."""
        end = time.monotonic() + seconds
        while True:
            before = openhpu.counters()["recipe_misses"]
            for _ in range(5):
                self._step()
            self._accelerator.synchronize()
            missing = float(openhpu.counters()["recipe_misses"] != before)
            seen = torch.tensor([missing, float(time.monotonic() > end)], device=self._engine.device)
            dist.all_reduce(seen)
            left, over = seen.tolist()
            if not left or over:
                return not left
            openhpu.wait_for_recipes(5.0)

    def train(self, steps: int) -> float:
        """Seconds a step."""
        self._wait()
        begin = time.perf_counter()
        for _ in range(steps):
            self._step()
        self._accelerator.synchronize()
        return (time.perf_counter() - begin) / steps

    def checkpoint(self) -> float:
        """Seconds to write a checkpoint and to read it again."""
        self._wait()
        begin = time.perf_counter()
        self._engine.save_checkpoint(str(self._folder), tag="measured")
        self._engine.load_checkpoint(str(self._folder), tag="measured")
        self._accelerator.synchronize()
        taken = time.perf_counter() - begin
        dist.barrier()
        if dist.get_rank() == 0:
            shutil.rmtree(self._folder / "measured")
        return taken

    def _wait(self) -> None:
        self._accelerator.synchronize()
        dist.barrier()

    def _allocated(self) -> int:
        self._accelerator.synchronize()
        return int(self._accelerator.memory_allocated())

    def memory(self) -> dict[str, float]:
        """Bytes of this rank after a step and after a backward, and what the ZeRO paper says of both."""
        self._step()
        states = self._allocated() - self._before
        self._engine.backward(self._loss())
        with_gradients = self._allocated() - self._before
        self._engine.step()
        ranks = dist.get_world_size()
        # Weights and gradients; float32 weights, which stage 3 has in their place, and two moments.
        narrow = (4 if self._wide else 2) * self._number
        weights = narrow / (ranks if self._stage == 3 else 1)
        gradients = narrow / ranks  # in stage 1, too, where a step is one micro batch
        formula = weights + 12 * self._number / ranks
        return {
            "states": states,
            "with_gradients": with_gradients,
            "formula": formula + (gradients if self._stage == 3 else 0),  # which keeps their memory
            "formula_with_gradients": formula + gradients,
        }

    def counters(self, steps: int) -> dict[str, int]:
        """The device's counters over so many steps."""
        self._accelerator.synchronize()
        openhpu.reset_counters()
        self.train(steps)
        return openhpu.counters()

    def end(self) -> None:
        """Forget the training, whose memory the next one must not count."""
        self._engine.destroy()
        del self._engine, self._inputs, self._following
        gc.collect()  # hooks of stage 3 refer to their modules


def main() -> None:
    """Serve until the input ends."""
    timing.calm_malloc()
    with tempfile.TemporaryDirectory(prefix="openhpu-deepspeed-") as folder:
        serve(lambda: Rank(folder))
    os._exit(0)  # ranks end at different times


if __name__ == "__main__":
    main()
