"""Peers in processes of their own: `python -m benchmarks.children WHAT ARGUMENTS`.

WHAT is "module:name", a function or a class of the benchmarks, ARGUMENTS a list in JSON. What a function returns is
printed as JSON. An object of a class answers questions (commands/answering.py).
"""

import importlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks import timing
from commands import ROOT, child
from commands.answering import ANSWER_S, Answering, serve
from commands.child import ChildError

PROBE_S = 600.0


def output_of(command: list[str], seconds: float, environment: Mapping[str, str]) -> str:
    """What a command prints. Raises ChildError, with what it said, if it fails or runs for longer than `seconds`."""
    ended = child.run(command, seconds=seconds, cwd=ROOT, env=environment, split=True)
    if ended.code:
        raise ChildError(f"`{' '.join(command)}`: {ended.how}; it printed:\n{ended.tail}")
    return ended.output


def words(what: str, *arguments: Any) -> list[str]:
    """Of the command line, after `python -m`."""
    return ["benchmarks.children", what, json.dumps(arguments)]


def probe(what: str, *arguments: Any, **environment: str) -> dict[str, Any]:
    """What a function returns in a process of its own, with more environment.

    Raises ChildError, with what it said, if it fails or has not ended after PROBE_S.
    """
    changed = {**os.environ, "OPENHPU_MODULE_LOCKS": "0", **environment}
    printed = output_of([sys.executable, "-m", *words(what, *arguments)], PROBE_S, changed)
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found


class Peer(Answering):
    """A process with an object of a class, whose methods it has. Use with `with`."""

    def __init__(
        self, what: str, *arguments: Any, environment: Mapping[str, str] | None = None, core: int | None = None
    ) -> None:
        module, *rest = words(what, *arguments)
        super().__init__(module, rest, environment, core)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(self.answer_to, name)


def ask_all(peers: Sequence[Peer], question: str, *values: Any, seconds: float = ANSWER_S) -> list[Any]:
    """What each of them answers. They begin at once."""
    for peer in peers:
        peer.ask(question, *values)
    return [peer.answer(seconds) for peer in peers]


def main(what: str, arguments: str) -> None:
    """Print what a function returns, or serve questions until the input ends."""
    module, _, name = what.partition(":")

    def call() -> Any:
        return getattr(importlib.import_module(f"benchmarks.{module}"), name)(*json.loads(arguments))

    if name[0].islower():
        print(json.dumps(call()))
        return
    if timing.CALM in os.environ:
        timing.calm_malloc()
    serve(call)


if __name__ == "__main__":
    main(*sys.argv[1:])
