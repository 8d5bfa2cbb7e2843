"""Processes that answer within a time, or are ended: what measures many conditions must not hang in one of them."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from examples.peer import Answering

_LAST_WORDS = 2000  # characters of what a failed process said
_FAREWELL_S = 5.0


def probe(module: str, *arguments: str, **environment: str) -> dict[str, Any]:
    """What a module of the benchmarks, in a process of its own with more environment, prints last: JSON. Raises
    RuntimeError, with what it said, if it fails."""
    command = [sys.executable, "-m", module, *arguments]
    changed = {**os.environ, "OPENHPU_MODULE_LOCKS": "0", **environment}
    run = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent.parent, env=changed)
    if run.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{run.stderr}")
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


class ChildError(RuntimeError):
    """A process ended, or gave no answer in time."""


class TimedChild(Answering):
    """A Python module in a process of its own, with a time for each answer. Use with `with`.

    `environment` is added to this process's, `core` is the one that it may run on (None: this process's cores). What it
    says on stderr is shown only if it fails. When it is left its processes are ended, whatever they do.
    """

    def __init__(
        self, module: str, arguments: Sequence[str], lazy: bool = False, environment: Mapping[str, str] | None = None,
        core: int | None = None,
    ):  # fmt: skip
        super().__init__(module, arguments, lazy)
        self._environment |= environment or {}
        self._core = core
        self._rest = b""

    def __enter__(self) -> Self:
        self._said = tempfile.TemporaryFile()
        cores = os.sched_getaffinity(0)
        # A child has the mask of the thread that starts it, from its first instruction on.
        if self._core is not None:
            os.sched_setaffinity(0, {self._core})
        try:
            self._child = subprocess.Popen(
                [sys.executable, "-m", self._module, *self._arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                bufsize=0,
                cwd=Path(__file__).parents[1],
                env=self._environment,
                start_new_session=True,  # so that its own children can be ended with it
            )
        finally:
            os.sched_setaffinity(0, cores)
        return self

    def __exit__(self, *error: object) -> None:
        child = self._child
        assert child.stdout
        self.end()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_FAREWELL_S if error[0] is None else 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
        self._said.close()

    def end(self) -> None:
        """Let it end, without waiting for that."""
        assert self._child.stdin
        with contextlib.suppress(OSError):
            self._child.stdin.close()

    def ask(self, question: str, *numbers: float) -> None:
        """Send a question, whose answer is read later. ChildError if the process has ended."""
        assert self._child.stdin
        try:
            self._child.stdin.write(f"{json.dumps([question, *numbers])}\n".encode())
        except OSError:
            raise ChildError(self._story("has ended")) from None

    def answer(self, seconds: float) -> Any:
        """Wait for an answer. ChildError if the process has ended, or gives none in so many seconds."""
        assert self._child.stdout
        deadline = time.monotonic() + seconds
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._child.stdout], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise ChildError(self._story(f"gave no answer in {seconds:.0f} s"))
            piece = os.read(self._child.stdout.fileno(), 1 << 16)
            if not piece:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._child.wait(_FAREWELL_S)
                raise ChildError(self._story(f"has ended with status {self._child.returncode}"))
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            return json.loads(line)
        except ValueError:
            raise ChildError(self._story(f"said {line[:200]!r}, which is no answer")) from None

    def _story(self, what: str) -> str:
        self._said.seek(0)
        said = self._said.read().decode(errors="replace").strip()[-_LAST_WORDS:]
        return f"the process {self._module} {' '.join(self._arguments)} {what}; it said:\n{said or '(nothing)'}"
