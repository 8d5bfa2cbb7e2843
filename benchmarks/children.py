"""Peers in processes of their own: `python -m benchmarks.children WHAT ARGUMENTS`.

WHAT is "module:name", a function or a class of the benchmarks, or of another package that is named, ARGUMENTS a list in
JSON. What a function returns is printed as JSON. An object of a class answers questions (commands/answering.py).
"""

import json
import os
import pkgutil
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks import timing
from commands import ROOT, child
from commands.answering import ANSWER_S, Answering, serve

PROBE_S = 600.0


def start(seconds: float, what: str, *arguments: Any, **environment: str) -> child.Child:
    """A process that calls a function, with more environment."""
    command = [sys.executable, "-m", "benchmarks.children", what, json.dumps(arguments)]
    changed = {**os.environ, "OPENHPU_MODULE_LOCKS": "0", **environment}
    return child.start(command, seconds=seconds, cwd=ROOT, env=changed, split=True)


def returned(process: child.Child) -> dict[str, Any]:
    """What the function of a process that was started returns. ChildError, with what it said, if it fails or takes too
    long."""
    with process:
        ended = process.wait().checked(f"`{' '.join(process.argv)}`")
    found: dict[str, Any] = json.loads(ended.output.splitlines()[-1])
    return found


def probe(what: str, *arguments: Any, **environment: str) -> dict[str, Any]:
    """What a function returns in a process of its own, with more environment; errors as of `returned`."""
    return returned(start(PROBE_S, what, *arguments, **environment))


class Peer(Answering):
    """A process with an object of a class, whose methods it has. Use with `with`."""

    def __init__(
        self, what: str, *arguments: Any, environment: Mapping[str, str] | None = None, core: int | None = None
    ) -> None:
        super().__init__("benchmarks.children", (what, json.dumps(arguments)), environment, core)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return partial(self.answer_to, name)


def ask_all(peers: Sequence[Peer], question: str, *values: Any, seconds: float = ANSWER_S) -> list[Any]:
    """What each of them answers. They begin at once."""
    for peer in peers:
        peer.ask(question, *values)
    return [peer.answer(seconds) for peer in peers]


def main(what: str, arguments: str) -> None:
    """Print what a function returns, or serve questions until the input ends."""

    def call() -> Any:
        return pkgutil.resolve_name(what if "." in what else f"benchmarks.{what}")(*json.loads(arguments))

    if what.rpartition(":")[2][0].islower():
        print(json.dumps(call()))
        return
    if timing.CALM in os.environ:
        timing.calm_malloc()
    serve(call)


if __name__ == "__main__":
    main(*sys.argv[1:])
