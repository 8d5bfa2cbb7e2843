"""A training in a process of its own, so that several can take turns: modes of the device are chosen once per process.

`python -m examples.peer MODEL DEVICE FUSED COMPILED` answers questions, a line of JSON each, until its input ends.
"""

import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from commands.answering import Answering, serve


@dataclass(frozen=True)
class Kind:
    """How a peer trains: its device, whether in lazy mode, with fused AdamW, with torch.compile of the model."""

    device: str
    lazy: bool = False
    fused: bool = False
    compiled: bool = False


class Peer(Answering):
    """A process that trains "digits" or "gpt". It answers to "train" (mean loss, seconds a step), "wait" (until all is
    compiled), "quality", "baseline", "write" and "report"."""

    def __init__(self, model: str, kind: Kind):
        self.kind = kind
        arguments = (model, kind.device, str(int(kind.fused)), str(int(kind.compiled)))
        super().__init__("examples.peer", arguments, {"PT_HPU_LAZY_MODE": str(int(kind.lazy))})


def _answers(model: str, device: str, fused: bool, compiled: bool) -> Any:
    import torch

    import openhpu
    from examples import digits, gpt_chars
    from openhpu import events, hpu

    module = {"digits": digits, "gpt": gpt_chars}[model]
    trainer = module.Trainer(device, fused=fused)
    if compiled:
        # Not `model.compile()`: of a Sequential that compiles nothing but modules inside that are not PyTorch's own.
        trainer.model = torch.compile(trainer.model)
    openhpu.reset_counters()

    def report() -> dict[str, Any]:
        on_hpu = device == "hpu"
        return {
            "counters": openhpu.counters(),
            "fallbacks": events.fallback_ops(),
            "recipes": len(openhpu.recipes()),
            "peak": hpu.max_memory_allocated() if on_hpu else 0,
            "graphs": torch._dynamo.utils.counters["stats"]["unique_graphs"] if compiled else 0,
        }

    return SimpleNamespace(
        train=trainer.train if model == "gpt" else trainer.train_epoch,
        wait=openhpu.wait_for_recipes,
        quality=trainer.validation_loss if model == "gpt" else trainer.accuracy,
        baseline=lambda: trainer.text.frequency_loss() if model == "gpt" else 0.0,
        write=lambda: trainer.write() if model == "gpt" else "",
        report=report,
    )


def main(model: str, device: str, fused: str, compiled: str) -> None:
    """Serve until the input ends."""
    serve(lambda: _answers(model, device, bool(int(fused)), bool(int(compiled))))


if __name__ == "__main__":
    main(*sys.argv[1:])
