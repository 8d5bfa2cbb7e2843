"""A training in a process of its own, so that several can take turns: modes of the device are chosen once per process.

`python -m examples.peer MODEL DEVICE FUSED COMPILED` answers questions, a line of JSON each, until its input ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True)
class Kind:
    """How a peer trains: its device, whether in lazy mode, with fused AdamW, with torch.compile of the model."""

    device: str
    lazy: bool = False
    fused: bool = False
    compiled: bool = False


class Answering:
    """A Python module in a process of its own that answers each line with a line of JSON. Use with `with`."""

    def __init__(self, module: str, arguments: Sequence[str], lazy: bool):
        self._module = module
        self._arguments = arguments
        self._environment = {**os.environ, "PT_HPU_LAZY_MODE": str(int(lazy)), "OPENHPU_MODULE_LOCKS": "0"}

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", self._module, *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
            env=self._environment,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()  # closes its input, which ends it

    def answer_to(self, line: str) -> Any:
        """Send a line, return the answer. RuntimeError if the process has ended."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the process of {self._module} ended before its time; what it said stands above")
        return json.loads(answer)


class Peer(Answering):
    """A process that trains "digits" or "gpt"."""

    def __init__(self, model: str, kind: Kind):
        self.kind = kind
        arguments = (model, kind.device, str(int(kind.fused)), str(int(kind.compiled)))
        super().__init__("examples.peer", arguments, kind.lazy)

    def ask(self, question: str, *arguments: int) -> Any:
        """The answer to "train" (mean loss, seconds a step), "wait" (until all is compiled), "quality", "write" or
        "report"."""
        return self.answer_to(json.dumps([question, *arguments]))


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
            "threads": torch.get_num_threads(),
            "graphs": torch._dynamo.utils.counters["stats"]["unique_graphs"] if compiled else 0,
        }

    return {
        "train": trainer.train if model == "gpt" else trainer.train_epoch,
        "steps": lambda: getattr(trainer, "steps_per_epoch", 0),
        "wait": openhpu.wait_for_recipes,
        "quality": trainer.validation_loss if model == "gpt" else trainer.accuracy,
        "baseline": lambda: trainer.text.frequency_loss() if model == "gpt" else 0.0,
        "write": lambda: trainer.write() if model == "gpt" else "",
        "report": report,
    }


def main(model: str, device: str, fused: str, compiled: str) -> None:
    """Serve until the input ends."""
    output, sys.stdout = sys.stdout, sys.stderr  # libraries print
    answers = _answers(model, device, bool(int(fused)), bool(int(compiled)))
    for line in sys.stdin:
        question, *arguments = json.loads(line)
        print(json.dumps(answers[question](*arguments)), file=output, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
