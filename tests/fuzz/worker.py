"""A process in one mode that runs programs: `python -m tests.fuzz.worker`, and the handle of it."""

import os
import pickle
import struct
import sys
import warnings
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from commands import child

ROOT = Path(__file__).resolve().parents[2]
MODES = {
    "eager": {"PT_HPU_LAZY_MODE": "0"},
    "lazy": {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "off"},
    "compiled": {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "sync", "PT_HPU_RECIPE_CACHE_CONFIG": ""},
}
BATCH_S = 300.0  # of programs, with what has to be compiled for them
LIFE_S = 6 * 3600.0
_LENGTH = struct.Struct("!Q")


class Outcome(NamedTuple):
    """What a batch of programs did, on the host; and how far the device's counters moved in its last run."""

    tensors: list[list[Any]]  # by program: what it held at the end, contents and metadata
    events: list[list[Any]]
    drawn: list[list[Any]]
    counters: dict[str, int]


def run_batch(programs: list[Any], seed: int, times: int) -> Outcome:
    """Runs the programs one after the other without ending a step, `times` times; what the last time gave."""
    import torch

    import openhpu
    from tests.fuzz.programs import run

    for _ in range(times):
        torch.hpu.synchronize()
        before = openhpu.counters()
        torch.manual_seed(seed)
        machines = [run(program, "hpu", seed + number) for number, program in enumerate(programs)]
        torch.hpu.synchronize()
        moved = {name: value - before[name] for name, value in openhpu.counters().items()}
    return Outcome(
        [[described(t) for t in m.tensors] for m in machines],
        [m.events for m in machines],
        [[t.cpu() for t in m.drawn] for m in machines],
        moved,
    )


def described(tensor: Any) -> tuple[Any, ...]:
    return tensor.cpu().contiguous(), tuple(tensor.shape), tensor.stride(), tensor.storage_offset()


class Worker:
    """A process in one of MODES. It is started when first needed, and started again after it died."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self._process: child.Child | None = None

    def run(self, programs: list[Any], seed: int, times: int = 1) -> Outcome:
        """Raises RuntimeError with what the worker said, or how it died."""
        if self._process is None:
            clean = {k: v for k, v in os.environ.items() if not k.startswith(("PT_", "OPENHPU_", "HABANA_"))}
            self._process = child.start(
                [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz.worker"], cwd=ROOT, seconds=LIFE_S, talk=True,
                env={**clean, "OPENHPU_MODULE_LOCKS": "0", **MODES[self.mode]},
            )  # fmt: skip
        try:
            self._process.send(_packed((programs, seed, times)))
            (size,) = _LENGTH.unpack(self._process.receive(_LENGTH.size, BATCH_S))
            answer = pickle.loads(self._process.receive(size, BATCH_S))
        except child.ChildError as error:
            self.close()
            raise RuntimeError(f"the {self.mode} worker: {error}") from error
        if isinstance(answer, str):
            raise RuntimeError(f"{self.mode}: {answer}")
        return Outcome(*answer)

    def close(self) -> None:
        if self._process is not None:
            self._process.close_input()
            self._process.wait(10)
            self._process.__exit__()
            self._process = None


def _packed(value: Any) -> bytes:
    message = pickle.dumps(value)
    return _LENGTH.pack(len(message)) + message


def _receive(pipe: BinaryIO) -> Any:
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    return pickle.loads(pipe.read(_LENGTH.unpack(head)[0]))


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    import torch

    from tests.fuzz.programs import Instruction

    while (job := _receive(sys.stdin.buffer)) is not None:
        programs, seed, times = job
        try:
            batch = [[Instruction(*instruction) for instruction in program] for program in programs]
            answer: Any = tuple(run_batch(batch, seed, times))
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
            torch.hpu.synchronize()
        answers.write(_packed(answer))
        answers.flush()


if __name__ == "__main__":
    main()
