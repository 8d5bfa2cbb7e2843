"""A training under a condition in a process of its own, which answers questions.

The condition's environment and affinity are set by who
starts it; here is what the script itself does: its number of threads, what it computes beside, whether it reads.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

import openhpu
from benchmarks import models, processor_quota
from benchmarks.timing import Steps

_CPU_BEFORE_S = 0.5
_EPOCH = 8  # steps, of which the last has a smaller batch
_RECIPES_S = 240.0
# Lazy mode knows a step by its last sixteen sights.
_SETTLINGS, _SETTLING_STEPS, _SETTLING_S = 2, 20, 3.0


class _Batches(IterableDataset[tuple[Tensor, Tensor]]):
    """The same batch again and again, a new tensor each time, so that losses can be compared."""

    def __init__(self, inputs: Tensor, target: Tensor):
        self.inputs, self.target = inputs, target

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            yield self.inputs.clone(), self.target.clone()


WORKS = {"MLP": models.MLP, "GPT": models.GPT_SMALL, "ConvNet": models.CONVNET}


class Script(Steps):
    """A training loop as somebody wrote it: mode, and what the loop does beside the step."""

    def __init__(self, asked: dict[str, Any]):
        condition, workload = asked["condition"], WORKS[asked["work"]]
        if asked["quota"]:
            processor_quota.enter(Path(asked["quota"]))  # before the device counts its cores
        if condition == "1 thread":
            torch.set_num_threads(1)
        if condition == "CPU before":
            before = workload.training("cpu")
            start = time.perf_counter()
            while time.perf_counter() - start < _CPU_BEFORE_S:
                before.step().item()
        self.on_hpu = asked["device"] == "hpu"
        self.reads = condition == "loss read"
        self._smaller_last = condition == "last batch"
        self._steps = 0
        self._losses: list[float] = []
        self._refusal = ""
        self._device = asked["device"]
        self._replays, self._lazy = asked["mode"] == "replay", asked["mode"] == "lazy"
        self._training = workload.training(asked["device"], **asked["optimizer"])
        if asked["compiled"]:
            # Not `model.compile()`, which compiles no forward of torch.nn's own, such as Sequential's.
            self._training.model = torch.compile(self._training.model)  # type: ignore[assignment]
        self._step: Callable[[], Tensor] = self._training.step
        self._whole = self._training.inputs, self._training.target
        if self._replays and self._smaller_last:
            self._refusal = "a captured graph has one batch size"
        elif self._replays:
            try:
                self._step = models.Graphed(self._training)
                self._losses = [self._step().item() for _ in range(2)]
            except RuntimeError as error:  # operators that fall back can't be captured
                self._refusal = str(error)
        self._factors = torch.randn(512, 512) if condition == "CPU product" else None
        self._batches: Iterator[tuple[Tensor, Tensor]] | None = None
        if condition == "DataLoader":
            loader = DataLoader(_Batches(*workload.batch()), batch_size=None, num_workers=2)
            self._batches = iter(loader)

    def step(self) -> Tensor:
        """One step of the loop; the loss, on the device."""
        if self._factors is not None:
            torch.mm(self._factors, self._factors)
        training = self._training
        if self._batches is not None:
            inputs, target = next(self._batches)
            if self._replays:  # a graph reads where it was captured
                training.inputs.copy_(inputs)
                training.target.copy_(target)
            else:
                training.inputs, training.target = inputs.to(self._device), target.to(self._device)
        if self._smaller_last:
            self._steps += 1
            inputs, target = self._whole
            size = len(inputs) * 5 // 8 if self._steps % _EPOCH == 0 else len(inputs)
            training.inputs, training.target = inputs[:size], target[:size]
        loss = self._step()
        if self.reads:
            loss.item()
        return loss

    def losses(self, steps: int) -> dict[str, Any]:
        """Losses of the first `steps` steps; seconds that a step takes once what recurs is compiled.

        Or why the step can't be captured, after which nothing else can be asked.
        """
        if self._refusal:
            return {"refused": self._refusal}
        losses: list[Any] = list(self._losses)
        while len(losses) < steps:
            loss = self.step()
            # A read in a loop that has none would be a habit that lazy mode learns; a graph writes the same tensor.
            losses.append(loss.item() if self._replays else loss)
        losses = [float(loss) for loss in losses]
        self.settle()
        return {"losses": losses, "step": self.turn(3, 1.0)}

    def settle(self) -> None:
        """Step until lazy mode knows how the loop goes, and what recurs is compiled."""
        for _ in range(_SETTLINGS if self._lazy else 1):
            start = time.perf_counter()
            for _ in range(_SETTLING_STEPS if self._lazy else 3):
                self.step()
                if time.perf_counter() - start > _SETTLING_S:
                    break
            self.wait()
            if self.on_hpu:
                openhpu.wait_for_recipes(_RECIPES_S)

    def turn(self, calls: int, seconds: float) -> float:
        """Seconds a step over `calls` steps, or fewer where issuing them takes longer than `seconds`.

        Where each step ends in a read a step's time is its own, and the median is taken. Elsewhere the host is ahead of
        the device: the time until all were done is divided by their number.
        """
        clock, times = time.perf_counter, []
        self.wait()
        start = before = clock()
        for _ in range(calls):
            self.step()
            now = clock()
            times.append(now - before)
            before = now
            if now - start > seconds:
                break
        if self.reads:
            return statistics.median(times)
        self.wait()
        return (clock() - start) / len(times)
