"""A training in a process of its own, so that several can take turns: a process has one mode of the device."""

from typing import Any

import torch

import openhpu
from benchmarks import children
from examples import digits, gpt_chars
from openhpu import events, hpu


class Peer(children.Peer):
    """A process that trains "digits" or "gpt", in lazy mode, with fused AdamW, or with torch.compile of the model.

    It answers to "train" (mean loss, seconds a step), "wait" (until all is compiled), "quality", "baseline", "write",
    "report".
    """

    def __init__(self, model: str, device: str, lazy: bool = False, fused: bool = False, compiled: bool = False):
        self.lazy = lazy
        self.compiled = compiled
        mode = {"PT_HPU_LAZY_MODE": str(int(lazy))}
        super().__init__("examples.peer:Training", model, device, fused, compiled, environment=mode)


class Training:
    """It, in its process."""

    def __init__(self, model: str, device: str, fused: bool, compiled: bool):
        module = {"digits": digits, "gpt": gpt_chars}[model]
        trainer: Any = module.Trainer(device, fused=fused)
        if compiled:
            # Not `model.compile()`: of a Sequential that compiles nothing but modules inside that are not PyTorch's.
            trainer.model = torch.compile(trainer.model)
        openhpu.reset_counters()
        self.device = device
        self.compiled = compiled
        self.wait = openhpu.wait_for_recipes
        self.train = trainer.train if model == "gpt" else trainer.train_epoch
        self.quality = trainer.validation_loss if model == "gpt" else trainer.accuracy
        self.baseline = trainer.text.frequency_loss if model == "gpt" else lambda: 0.0
        self.write = trainer.write if model == "gpt" else lambda: ""

    def report(self) -> dict[str, Any]:
        """What ran."""
        return {
            "counters": openhpu.counters(),
            "fallbacks": events.fallback_ops(),
            "recipes": len(openhpu.recipes()),
            "peak": hpu.max_memory_allocated() if self.device == "hpu" else 0,
            "graphs": torch._dynamo.utils.counters["stats"]["unique_graphs"] if self.compiled else 0,
        }
