"""Worker processes. A process that dies or hangs costs the case it was running, and a fresh one goes on.

Why not PyTorch's own device-type tests: they check less (most of them not against the CPU), know neither recorded nor
compiled operators nor Gaudi's table, and run in one process, which a crash or a hang ends with all that was to come.
"""

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from commands.answering import Answering
from commands.child import ChildError, ending

# A case takes seconds, some a minute on a busy machine; what takes this long does not end.
HANG_S = 110.0
_START_S = 60.0  # more, for a worker that is started
REFRESH = 400  # cases to a process

Result = dict[str, Any]


def result(case: str, **fields: Any) -> Result:
    """What is said of a case; of one that passes unless `fields` say otherwise."""
    empty = {"ok": True, "failures": [], "count": 0, "samples": 0, "checked": 0, "recorded": 0, "seconds": 0.0}
    return {"case": case, **empty, **fields}


# The modules of modes whose cases share compilations; the others' is worker.
_BATCHES = {"recipe": "recipes", "compile": "compiled", "gaudi_recipe": "gaudi", "gaudi_compile": "gaudi"}
# What a mode's workers find in their environment.
MODES: dict[str, dict[str, str]] = {
    "eager": {},
    "lazy": {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "off"},
    "recipe": {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "sync", "PT_HPU_RECIPE_CACHE_CONFIG": ""},
    "compile": {"OPENHPU_COMPILE": "sync", "PT_HPU_RECIPE_CACHE_CONFIG": ""},
}
MODES |= {f"gaudi_{mode}": variables for mode, variables in MODES.items()}


def environment(plant: str | None, mode: str = "eager") -> dict[str, str]:
    """The workers' environment: side by side on one module, without the settings of whoever starts the suite."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PT_HPU_", "PT_", "OPENHPU_", "HABANA_"))}
    env |= {"OPENHPU_MODULE_LOCKS": "0", "PYTHONFAULTHANDLER": "1", **MODES[mode]}
    env["OPENHPU_OUT_OF_RANGE"] = "error"  # errors are compared with PyTorch's
    if plant:
        env["OPENHPU_CONFORMANCE_PLANT"] = plant
    return env


class StoppedError(RuntimeError):
    """The command ends, and its workers with it."""


class Worker:
    """One process, which is started when it is needed."""

    def __init__(self, part: str, threads: int, plant: str | None, mode: str = "eager"):
        module = "tests.conformance." + _BATCHES.get(mode, "worker")
        self._process = Answering(module, [part, str(threads)], base=environment(plant, mode))
        self._started = False

    def run(
        self, cases: list[str], hang_s: float = HANG_S, doing: Callable[[str], None] = lambda case: None
    ) -> list[Result]:
        """The results of cases. Where the process dies, or does nothing for so many seconds, that of the case it was
        at, alone; none if it was at all of them. `doing` is told what it is at."""
        start = time.perf_counter()
        at = cases[0] if len(cases) == 1 else ""
        limit = hang_s
        try:
            if not self._started:
                self._process.__enter__()
                self._started = True
                limit += _START_S
            doing(at or f"{len(cases)} cases from {cases[0]} on")
            self._process.ask("run", *cases)
            while "at" in (answer := self._process.answer(limit)):
                at = answer["at"]
                limit = hang_s
                doing(at or f"{len(cases)} cases from {cases[0]} on, compiled together")
            return answer["results"]
        except ChildError as error:
            ended = self._process.child.poll() if self._started else None
            if not self._started or ending() or (ended and ended.stopped):
                raise StoppedError from error
            tail = _tail(self._process.child.printed())
            self.close(ChildError)
        if not at:
            return []
        how = f"crash: {ended.how}" if ended else "hangs"
        seconds = round(time.perf_counter() - start, 3)
        return [result(at, ok=False, failures=[f"case: {how}: {tail}"], count=1, seconds=seconds)]

    def close(self, error: type[Exception] | None = None) -> None:
        """End the process, at once if there was an error."""
        if self._started:
            self._process.__exit__(error)
        self._started = False


def _tail(printed: str) -> str:
    """The last lines that a process printed: of a fault, where it happened."""
    lines = printed.splitlines()
    fault = [i for i, text in enumerate(lines) if text.startswith("Fatal Python error")]
    chosen = lines[fault[-1] :][:12] if fault else lines[-5:]
    return " | ".join(text.strip() for text in chosen)[:800]


def run_cases(
    batches: list[list[str]],
    part: str,
    jobs: int,
    threads: int,
    report: Callable[[Result], None],
    plant: str | None = None,
    mode: str = "eager",
    end: float = float("inf"),
    doing: Callable[[str, str | None], None] = lambda worker, case: None,
) -> None:
    """Runs batches of cases in `jobs` processes. None begins after `end`, a time of time.monotonic().

    `report` gets each result, one at a time; `doing` what a worker is at. Of a batch that ended its process, the rest
    is run again, each case by itself if none of them is known to be the cause.
    """
    pending = list(batches)
    lock = threading.Lock()
    errors: list[BaseException] = []

    def serve(name: str) -> None:
        worker = Worker(part, threads, plant, mode)
        mine: list[list[str]] = []
        done = 0
        try:
            while True:
                with lock:
                    if not mine and pending and time.monotonic() <= end and not errors:
                        mine.append(pending.pop(0))
                if not mine or errors:
                    return
                batch = mine.pop(0)
                results = worker.run(batch, doing=lambda case: doing(name, case))
                with lock:
                    for result in results:
                        report(result)
                reported = {result["case"] for result in results}
                if rest := [case for case in batch if case not in reported]:
                    mine[:0] = [rest] if results else [[case] for case in rest]
                done += len(batch)
                if done >= REFRESH:
                    worker.close()  # a long run starts afresh now and then: no state of one case reaches all others
                    done = 0
        except BaseException as error:
            errors.append(error)
        finally:
            worker.close()
            doing(name, None)

    # Not waited for by the end of a process whose budget is used up.
    servers = [threading.Thread(target=serve, args=(f"worker {n + 1}",), daemon=True) for n in range(jobs)]
    for server in servers:
        server.start()
    for server in servers:
        server.join()
    if errors:
        raise errors[0]
