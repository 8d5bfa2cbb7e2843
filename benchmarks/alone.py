"""A training in a process of its own, which takes its turns beside the others.

In one process with the device, PyTorch's CPU kernels meet its worker: two teams of OpenMP threads in a process poll
less before they sleep. A child in which no device is opened shows what the CPU device does without that. Modes of the
device, too, are chosen once per process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from benchmarks import models, timing
from benchmarks.timing import Peer, Turn


class Child:
    """A process that holds a training. Use with `with`.

    `device`: "cpu" or "hpu". `lazy`: PT_HPU_LAZY_MODE of an hpu child. `compiled`: "" (as it is), "model" (with
    torch.compile of the model) or "both" (of the model and of the optimizer's step).
    """

    def __init__(
        self, workload: models.Workload, device: str = "cpu", lazy: bool = False, compiled: str = "", **optimizer: Any
    ):
        self._arguments = json.dumps(
            {
                "title": workload.title,
                "device": device,
                "compiled": compiled,
                "optimizer": optimizer,
                "calm": timing.is_calm(),
            }
        )
        self._environment = {**os.environ, "PT_HPU_LAZY_MODE": str(int(lazy)), "OPENHPU_MODULE_LOCKS": "0"}

    def __enter__(self) -> Child:
        command = [sys.executable, "-m", "benchmarks.alone", self._arguments]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent.parent,
            env=self._environment,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()  # closes its input, which ends it

    def ask(self, question: str) -> Any:
        """Send a line, return the answer."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(f"{question}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("a process that takes part in a benchmark ended")
        return json.loads(answer)

    def turn(self, calls: int) -> Turn:
        """Let it make `calls` steps."""
        host, done, faults = self.ask(str(calls))
        return host, done, faults

    def losses(self, steps: int) -> list[float]:
        """Let it make `steps` steps and wait until what recurs is compiled; the losses."""
        return [float(loss) for loss in self.ask(f"losses {steps}")]

    def counters(self, steps: int) -> dict[str, int]:
        """The device's counters over `steps` steps."""
        return dict(self.ask(f"counters {steps}"))

    def peer(self, name: str) -> Peer:
        """It, as a peer."""
        return Peer(name, turn=self.turn)


def _answer(question: str, peer: Peer) -> Any:
    assert peer.call
    kind, _, number = question.strip().rpartition(" ")
    if not kind:
        return peer.take_turn(int(number))
    import openhpu
    from openhpu import graphs

    if kind == "losses":
        losses = [peer.call().item() for _ in range(int(number))]
        if peer.on_hpu:
            graphs.wait_for_recipes()
        return losses
    openhpu.reset_counters()
    for _ in range(int(number)):
        peer.call()
    peer.wait()
    return openhpu.counters()


def main(arguments: str) -> None:
    """Serve questions, a line each, until the input ends."""
    asked = json.loads(arguments)
    if asked["calm"]:
        timing.calm_malloc()
    workload = next(w for w in models.WORKLOADS if w.title == asked["title"])
    training = workload.training(asked["device"], **asked["optimizer"])
    if asked["compiled"]:
        training.model = torch.compile(training.model)  # type: ignore[assignment]
    if asked["compiled"] == "both":
        training.optimizer.step = torch.compile(training.optimizer.step)  # type: ignore[method-assign,assignment]
    peer = Peer("alone", training.step, on_hpu=asked["device"] == "hpu")
    answers, sys.stdout = sys.stdout, sys.stderr  # libraries print
    for line in sys.stdin:
        print(json.dumps(_answer(line, peer)), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
