"""The CPU device in a process of its own, which takes its turns beside the others.

In one process with the device, PyTorch's CPU kernels meet its worker: two teams of OpenMP threads in a process poll
less before they sleep. A child in which no device is opened shows what the CPU device does without that.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks import models, timing
from benchmarks.timing import Peer, Turn


class Child:
    """A process that holds a training on the CPU device. Use with `with`."""

    def __init__(self, workload: models.Workload, **optimizer: Any):
        self._arguments = json.dumps({"title": workload.title, "optimizer": optimizer, "calm": timing.is_calm()})

    def __enter__(self) -> Child:
        command = [sys.executable, "-m", "benchmarks.alone", self._arguments]
        root = Path(__file__).parent.parent
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()  # closes its input, which ends it

    def turn(self, calls: int) -> Turn:
        """Let it make `calls` steps."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(f"{calls}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the process of the CPU device ended")
        host, done, faults = json.loads(answer)
        return host, done, faults

    def peer(self, name: str) -> Peer:
        """It, as a peer."""
        return Peer(name, turn=self.turn)


def main(arguments: str) -> None:
    """Serve turns, a line each, until the input ends."""
    asked = json.loads(arguments)
    if asked["calm"]:
        timing.calm_malloc()
    workload = next(w for w in models.WORKLOADS if w.title == asked["title"])
    training = workload.training("cpu", **asked["optimizer"])
    peer = Peer("CPU", training.step)
    for line in sys.stdin:
        print(json.dumps(peer.take_turn(int(line))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
