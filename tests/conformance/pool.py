"""Worker processes. A process that dies or hangs costs the case it was running, and a fresh one goes on."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
# A case takes seconds, some a minute on a busy machine; what takes this long does not end.
HANG_S = 300.0

Result = dict[str, Any]


# The modules of modes whose cases share compilations; the others' is worker.
_BATCHES = {"recipe": "recipes", "compile": "compiled", "gaudi_recipe": "gaudi", "gaudi_compile": "gaudi"}
# What a mode's workers find in their environment.
MODES: dict[str, dict[str, str]] = {
    "eager": {},
    "lazy": {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "off"},
    "recipe": {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "sync", "PT_HPU_RECIPE_CACHE_CONFIG": ""},
    "compile": {"OPENHPU_COMPILE": "sync", "PT_HPU_RECIPE_CACHE_CONFIG": ""},
}
MODES |= {
    "gaudi_eager": MODES["eager"],
    "gaudi_lazy": MODES["lazy"],
    "gaudi_recipe": MODES["recipe"],
    "gaudi_compile": MODES["compile"],
}


def environment(plant: str | None, mode: str = "eager") -> dict[str, str]:
    """The workers' environment: side by side on one module, without the settings of whoever starts the suite."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PT_HPU_", "PT_", "OPENHPU_", "HABANA_"))}
    env |= {"OPENHPU_MODULE_LOCKS": "0", "PYTHONFAULTHANDLER": "1", **MODES[mode]}
    if plant:
        env["OPENHPU_CONFORMANCE_PLANT"] = plant
    return env


class Worker:
    """One process and its log."""

    def __init__(self, part: str, threads: int, plant: str | None, mode: str = "eager"):
        module = "tests.conformance." + _BATCHES.get(mode, "worker")
        self._command = [sys.executable, "-m", module, part, str(threads)]
        self._plant = plant
        self._mode = mode
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[bytes] | None = None

    def _start(self) -> subprocess.Popen[str]:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        return subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=ROOT,
            env=environment(self._plant, self._mode),
        )

    def run(self, case: str, hang_s: float = HANG_S) -> Result:
        if self._process is None:
            self._process = self._start()
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        start = time.perf_counter()
        line = ""
        try:
            process.stdin.write(case + "\n")
            process.stdin.flush()
            ready, _, _ = select.select([process.stdout], [], [], hang_s)
            if ready:
                line = process.stdout.readline()
        except BrokenPipeError:
            ready = [process.stdout]
        if line:
            return json.loads(line)
        ending = "hangs" if not ready else "crash"
        if not ready:
            process.kill()
        code = process.wait()
        if ending == "crash":
            ending = f"crash: {signal.Signals(-code).name if code < 0 else f'exit status {code}'}"
        tail = self._tail()
        self.close()
        return {
            "case": case,
            "ok": False,
            "failures": [f"case: {ending}: {tail}"],
            "count": 1,
            "samples": 0,
            "checked": 0,
            "seconds": round(time.perf_counter() - start, 3),
        }

    def _tail(self) -> str:
        """The last lines of the log: of a fault, where it happened."""
        if self._log is None:
            return ""
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - 4000))
        lines = self._log.read().decode(errors="replace").splitlines()
        fault = [i for i, text in enumerate(lines) if text.startswith("Fatal Python error")]
        chosen = lines[fault[-1] :][:12] if fault else lines[-5:]
        return " | ".join(text.strip() for text in chosen)[:800]

    def close(self) -> None:
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
            self._process.wait()
        if self._log is not None:
            self._log.close()
        self._process = self._log = None


def run_cases(
    cases: Iterable[str],
    part: str,
    jobs: int,
    threads: int,
    report: Callable[[Result], None],
    plant: str | None = None,
    refresh: int = 400,
    mode: str = "eager",
    end: float = float("inf"),
) -> None:
    """Runs the cases in `jobs` processes; `report` gets each result, one at a time. None begins after `end`, a time of
    time.monotonic()."""
    pending = iter(list(cases))
    lock = threading.Lock()

    def serve() -> None:
        worker = Worker(part, threads, plant, mode)
        done = 0
        try:
            while True:
                with lock:
                    case = next(pending, None)
                if case is None or time.monotonic() > end:
                    return
                result = worker.run(case)
                done += 1
                with lock:
                    report(result)
                if done % refresh == 0:
                    worker.close()  # a long run starts afresh now and then: no state of one case reaches all others
        finally:
            worker.close()

    servers = [threading.Thread(target=serve) for _ in range(jobs)]
    for server in servers:
        server.start()
    for server in servers:
        server.join()
