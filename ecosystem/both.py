"""A script on both devices, each in a process of its own: a library's trainer has one device for its process."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from commands import child

TIMEOUT_S = 900
_LAST_WORDS = 3000  # characters of what a failed process said


def on_both(module: str, folder: Path) -> dict[str, Any]:
    """What `python -m module DEVICE FOLDER` prints last, JSON, for "cpu" and "hpu", which run at once.

    Raises RuntimeError, with what it said, if one fails.
    """
    processes, found = {}, {}
    with ExitStack() as stack:
        for device in ("cpu", "hpu"):
            (folder / device).mkdir()
            command = [sys.executable, "-m", module, device, str(folder / device)]
            process = child.start(command, seconds=TIMEOUT_S, cwd=folder / device, split=True)
            processes[device] = stack.enter_context(process)
        for device, process in processes.items():
            ended = process.wait()
            if ended.code:
                raise RuntimeError(f"{module} on {device}: {ended.how}:\n{ended.errors[-_LAST_WORDS:]}")
            found[device] = json.loads(ended.output.splitlines()[-1])
    return found
