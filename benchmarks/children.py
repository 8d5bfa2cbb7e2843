"""Probes: modules of the benchmarks that measure one thing in a process of their own, and print it."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from commands import ROOT, child
from commands.child import ChildError

PROBE_S = 600.0


def probe(module: str, *arguments: str, **environment: str) -> dict[str, Any]:
    """What a module of the benchmarks, in a process of its own with more environment, prints last: JSON.

    Raises ChildError, with what it said, if it fails or has not ended after PROBE_S.
    """
    command = [sys.executable, "-m", module, *arguments]
    changed = {**os.environ, "OPENHPU_MODULE_LOCKS": "0", **environment}
    ended = child.run(command, seconds=PROBE_S, cwd=ROOT, env=changed, split=True)
    if ended.code:
        raise ChildError(f"`{' '.join(command[1:])}`: {ended.how}; it printed:\n{ended.tail}")
    found: dict[str, Any] = json.loads(ended.output.splitlines()[-1])
    return found
