"""A process in one mode that runs programs: `python -m tests.fuzz.worker`, and the handle of it."""

import base64
import os
import pickle
import warnings
from typing import Any, NamedTuple

from commands.answering import Answering, serve
from commands.child import ChildError

MODES = {
    "eager": {"PT_HPU_LAZY_MODE": "0"},
    "lazy": {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "off"},
    "compiled": {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "sync", "PT_HPU_RECIPE_CACHE_CONFIG": ""},
}
BATCH_S = 300.0  # of programs, with what has to be compiled for them


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
        self._process: Answering | None = None

    def run(self, programs: list[Any], seed: int, times: int = 1) -> Outcome:
        """Raises RuntimeError with what the worker said, or how it died."""
        if self._process is None:
            clean = {k: v for k, v in os.environ.items() if not k.startswith(("PT_", "OPENHPU_", "HABANA_"))}
            environment = {"PYTHONFAULTHANDLER": "1", **MODES[self.mode]}
            self._process = Answering("tests.fuzz.worker", environment=environment, base=clean).__enter__()
        try:
            answer = _unpacked(self._process.answer_to("run", _packed((programs, seed, times)), seconds=BATCH_S))
        except ChildError as error:
            self.close()
            raise RuntimeError(f"the {self.mode} worker: {error}") from error
        if isinstance(answer, str):
            raise RuntimeError(f"{self.mode}: {answer}")
        return Outcome(*answer)

    def close(self) -> None:
        if self._process is not None:
            self._process.__exit__(None)
            self._process = None


def _packed(value: Any) -> str:
    return base64.b64encode(pickle.dumps(value)).decode()


def _unpacked(text: str) -> Any:
    return pickle.loads(base64.b64decode(text))


class Answers:
    """What the process answers."""

    def run(self, job: str) -> str:
        import torch

        from tests.fuzz.programs import Instruction

        programs, seed, times = _unpacked(job)
        try:
            batch = [[Instruction(*instruction) for instruction in program] for program in programs]
            return _packed(tuple(run_batch(batch, seed, times)))
        except Exception as error:
            torch.hpu.synchronize()
            return _packed(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    serve(Answers)
