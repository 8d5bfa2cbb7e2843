"""One rank of the benchmark `deepspeed`."""

import gc
import importlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F

from benchmarks import models
from benchmarks.distributed_probe import Trainer
from examples.gpt_chars import GPT

BUCKET = 1_000_000


class Rank(Trainer):
    """A rank of DeepSpeed's accelerator, which DS_ACCELERATOR names."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self._deepspeed: Any = importlib.import_module("deepspeed")
        self._deepspeed.utils.logger.setLevel("ERROR")
        self._deepspeed.init_distributed()
        self._accelerator: Any = self._deepspeed.accelerator.get_accelerator()
        self.sync = self._accelerator.synchronize
        self._own = tempfile.TemporaryDirectory(prefix="openhpu-deepspeed-")
        shared = [self._own.name]  # the first rank's, for all
        dist.broadcast_object_list(shared)
        self._folder = Path(shared[0])

    def start(self, precision: str, stage: int, number: int, fused: bool) -> list[float]:
        """Set a training up and make `number` steps, each rank on half of a batch; this rank's losses.

        `fused`: with DeepSpeed's own Adam, not PyTorch's.
        """
        torch.manual_seed(0)
        self._before = self._allocated()
        model = GPT(models.CHARACTERS)
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
        self.device = self._engine.device
        inputs, following = models.GPT_SMALL.batch()
        half = len(inputs) // 2
        mine = slice(dist.get_rank() * half, (dist.get_rank() + 1) * half)
        self._inputs, self._following = (part[mine].contiguous().to(self.device) for part in (inputs, following))
        return [self.step().item() for _ in range(number)]

    def _loss(self) -> torch.Tensor:
        return F.cross_entropy(self._engine(self._inputs).float().flatten(0, 1), self._following.flatten())

    def step(self) -> torch.Tensor:
        """One step; the loss."""
        loss = self._loss()
        self._engine.backward(loss)
        self._engine.step()
        return loss.detach()

    def checkpoint(self) -> float:
        """Seconds to write a checkpoint and to read it again."""

        def kept() -> None:
            self._engine.save_checkpoint(str(self._folder), tag="measured")
            self._engine.load_checkpoint(str(self._folder), tag="measured")

        taken = self.seconds(kept, 1)
        dist.barrier()
        if dist.get_rank() == 0:
            shutil.rmtree(self._folder / "measured")
        return taken

    def _allocated(self) -> int:
        self.sync()
        return int(self._accelerator.memory_allocated())

    def memory(self) -> dict[str, float]:
        """Bytes of this rank after a step and after a backward, and what the ZeRO paper says of both."""
        self.step()
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

    def end(self) -> None:
        """Forget the training, whose memory the next one must not count."""
        self._engine.destroy()
        del self._engine, self._inputs, self._following
        gc.collect()  # hooks of stage 3 refer to their modules
