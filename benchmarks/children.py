"""Probes: modules of the benchmarks that measure one thing in a process of their own, and print it."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from commands import ROOT, child
from commands.child import ChildError

PROBE_S = 600.0


def output_of(command: list[str], seconds: float, environment: dict[str, str]) -> str:
    """What a command prints. Raises ChildError, with what it said, if it fails or runs for longer than `seconds`."""
    ended = child.run(command, seconds=seconds, cwd=ROOT, env=environment, split=True)
    if ended.code:
        raise ChildError(f"`{' '.join(command)}`: {ended.how}; it printed:\n{ended.tail}")
    return ended.output


def probe(module: str, *arguments: str, **environment: str) -> dict[str, Any]:
    """What a module of the benchmarks, in a process of its own with more environment, prints last: JSON.

    Raises ChildError, with what it said, if it fails or has not ended after PROBE_S.
    """
    changed = {**os.environ, "OPENHPU_MODULE_LOCKS": "0", **environment}
    printed = output_of([sys.executable, "-m", module, *arguments], PROBE_S, changed)
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found
