"""A Python module in a process of its own that answers each line of JSON with another, in time.

Here it is an `Answering`; in the process, `serve` reads the questions.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from commands import ROOT
from commands.child import Child, ChildError, start

ANSWER_S = 300.0
_LIFE_S = 6 * 3600.0
_FAREWELL_S = 5.0

_channel = sys.stdout  # of the answers, in the process


class Answering:
    """The process; use with `with`. When it is left, the process is stopped with all that it started.

    `environment` is added to `base`. `core` is the one that it may run on (None: this process's cores). `python` is its
    interpreter. What it prints on stderr is shown where it fails.
    """

    child: Child

    def __init__(
        self,
        module: str,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        core: int | None = None,
        base: Mapping[str, str] = os.environ,
        python: str = sys.executable,
    ):
        self._command = [python, "-m", module, *arguments]
        self._environment = {**base, "OPENHPU_MODULE_LOCKS": "0", **(environment or {})}
        self._core = core

    def __enter__(self) -> Self:
        cores = os.sched_getaffinity(0)
        # A child has the mask of the thread that starts it, from its first instruction on.
        if self._core is not None:
            os.sched_setaffinity(0, {self._core})
        try:
            self.child = start(self._command, seconds=_LIFE_S, cwd=ROOT, env=self._environment, talk=True)
        finally:
            os.sched_setaffinity(0, cores)
        return self

    def __exit__(self, *error: object) -> None:
        self.end()
        if not error[0]:
            self.child.poll(_FAREWELL_S)
        self.child.__exit__(*error)

    def end(self) -> None:
        """Let it end, without waiting for that."""
        self.child.close_input()

    def ask(self, question: str, *values: Any) -> None:
        """Send a question, whose answer is read later. ChildError if the process has ended."""
        self.child.send(f"{json.dumps([question, *values])}\n")

    def answer(self, seconds: float = ANSWER_S) -> Any:
        """Wait for an answer. ChildError if the process has ended, or gives none in so many seconds."""
        line = self.child.answer(seconds)
        try:
            return json.loads(line)
        except ValueError:
            raise ChildError(self.child.story(f"said {line[:200]!r}, which is no answer")) from None

    def answer_to(self, question: str, *values: Any, seconds: float = ANSWER_S) -> Any:
        """Ask, and wait for the answer; errors as of both."""
        self.ask(question, *values)
        return self.answer(seconds)


def serve(make: Callable[[], object]) -> None:
    """In the process: answer each question by the method of its name of what `make` gives, until the input ends.

    What anything prints on stdout goes to stderr, from before `make` is called.
    """
    global _channel
    _channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    answers = make()
    for line in sys.stdin:
        question, *values = json.loads(line)
        say(getattr(answers, question)(*values))


def say(value: Any) -> None:
    """In the process: write a line of JSON beside the answers, such as what it is at."""
    print(json.dumps(value), file=_channel, flush=True)
