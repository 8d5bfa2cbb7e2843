"""A training in a process of its own, which takes its turns beside the others.

In one process with the device, PyTorch's CPU kernels meet its worker: two teams of OpenMP threads in a process poll
less before they sleep. A child in which no device is opened shows what the CPU device does without that. Modes of the
device, too, are chosen once per process.
"""

from typing import Any

import torch

import openhpu
from benchmarks import children, models
from benchmarks.timing import Peer, Steps


class Child(children.Peer):
    """A process that holds a Training. Use with `with`.

    `device`: "cpu" or "hpu". `lazy`: PT_HPU_LAZY_MODE of an hpu child. `compiled`: "" (as it is), "model" (with
    torch.compile of the model), "both" (of the model and of the optimizer's step) or "graph" (an HPU graph of the
    whole step).
    `threads`: of kernels; 0: as many as PyTorch takes.
    """

    def __init__(
        self,
        workload: models.Workload,
        device: str = "cpu",
        lazy: bool = False,
        compiled: str = "",
        threads: int = 0,
        **optimizer: Any,
    ):
        asked = (workload.title, device, compiled, threads, optimizer)
        super().__init__("training_process:Training", *asked, environment={"PT_HPU_LAZY_MODE": str(int(lazy))})


class Training(Steps):
    """It, in its process."""

    def __init__(self, title: str, device: str, compiled: str, threads: int, optimizer: dict[str, Any]):
        if threads:
            torch.set_num_threads(threads)
        workload = next(w for w in models.WORKLOADS if w.title == title)
        training = workload.training(device, **optimizer)
        self.on_hpu = device == "hpu"
        if compiled in ("model", "both"):
            # Not `model.compile()`, which compiles no forward of torch.nn's own, such as Sequential's.
            backend = "hpu_backend" if self.on_hpu else "inductor"
            training.model = torch.compile(training.model, backend=backend)  # type: ignore[assignment]
        if compiled == "both":
            training.optimizer.step = torch.compile(training.optimizer.step)  # type: ignore[method-assign,assignment]
        self.step = models.Graphed(training) if compiled == "graph" else training.step
        self.turn = Peer("training", self.step, on_hpu=self.on_hpu).take_turn

    def losses(self, steps: int) -> list[float]:
        """Make `steps` steps and wait until what recurs is compiled; the losses."""
        losses = [self.step().item() for _ in range(steps)]
        if self.on_hpu:
            openhpu.wait_for_recipes()
        return losses
