"""A Trainer in a process of its own, mode by environment.

steps: milliseconds a training step of the small GPT takes, in stretches. recipes: how many operators of
100 batches of digits ran in recipes, with validation, logging and a checkpoint, when 100 before them had been seen.
"""

import logging
import tempfile
import time
import warnings
from typing import Any

import torch
import torch.nn.functional as F
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader

import openhpu
from benchmarks import models
from examples import digits

warnings.simplefilter("ignore")
for _name in ("lightning.pytorch", "lightning.fabric"):
    logging.getLogger(_name).setLevel(logging.ERROR)
STEPS, STRETCH = 200, 20
BATCHES = 100


class Module(LightningModule):
    """A model that logs its loss."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        """The loss."""
        out = self.model(batch[0])
        loss = F.cross_entropy(out.flatten(0, -2), batch[1].flatten())
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        """The accuracy."""
        self.log("accuracy", (self.model(batch[0]).argmax(-1) == batch[1]).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW, in the form that is the default on each device."""
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class Clock(Callback):
    """Milliseconds a step of each stretch, waited for at its end. On hpu the first half is for recipes."""

    def __init__(self) -> None:
        self.ms: list[float] = []
        self._since = 0.0

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *rest: Any) -> None:
        """Take the time at the end of a stretch."""
        if trainer.global_step % STRETCH:
            return
        next(pl_module.parameters()).sum().item()
        if trainer.global_step == STEPS // 2 and trainer.strategy.root_device.type == "hpu":
            openhpu.wait_for_recipes()
        now = time.perf_counter()
        if trainer.global_step > STEPS // 2:
            self.ms.append((now - self._since) / STRETCH * 1e3)
        self._since = time.perf_counter()


def _trainer(device: str, folder: str, **arguments: Any) -> Trainer:
    return Trainer(
        accelerator=device, devices=1, enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
        num_sanity_val_steps=0, **arguments,
    )  # fmt: skip


def steps(device: str) -> dict[str, Any]:
    """Times of the GPT's steps."""
    torch.manual_seed(0)
    text, target = models.GPT_SMALL.batch()
    batches: Any = [(text, target)] * STEPS
    loader: Any = DataLoader(batches, batch_size=None)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        _trainer(device, folder, max_steps=STEPS, logger=False, enable_checkpointing=False, callbacks=[clock]).fit(
            Module(models.GPT_SMALL.model()), loader
        )
    return {"ms": clock.ms}


def recipes(device: str) -> dict[str, Any]:
    """Counters of the second 100 batches."""
    images, labels, test_images, test_labels = digits.load_data()
    size = 14
    training: Any = [(images[i : i + size], labels[i : i + size]) for i in range(0, size * BATCHES, size)]
    module = Module(digits.make_model())
    held_out: Any = [(test_images[:320], test_labels[:320])]
    loader: Any = DataLoader(training, batch_size=None)
    validation: Any = DataLoader(held_out, batch_size=None)
    with tempfile.TemporaryDirectory() as folder:

        def fit() -> None:
            _trainer(device, folder, max_epochs=1, logger=CSVLogger(folder), log_every_n_steps=10).fit(
                module, loader, validation
            )

        fit()
        openhpu.wait_for_recipes()
        before = openhpu.counters()
        fit()
        torch.accelerator.synchronize()
        after = openhpu.counters()
    inside, outside = (after[name] - before[name] for name in ("ops_in_recipes", "ops_node_by_node"))
    other = sum(after[name] - before[name] for name in ("ops_submitted", "ops_waited"))
    return {"share": inside / (inside + outside + other), "recipes": len(openhpu.recipes())}
