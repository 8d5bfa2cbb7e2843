"""A script on both devices, each in a process of its own: a library's trainer has one device for its process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

TIMEOUT_S = 900
_LAST_WORDS = 3000  # characters of what a failed process said


def on_both(module: str, folder: Path) -> dict[str, Any]:
    """What `python -m module DEVICE FOLDER` prints last, JSON, for "cpu" and "hpu", which run at once.

    Raises RuntimeError, with what it said, if one fails.
    """
    processes, found = {}, {}
    for device in ("cpu", "hpu"):
        (folder / device).mkdir()
        command = [sys.executable, "-m", module, device, str(folder / device)]
        pipe = subprocess.PIPE
        processes[device] = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=folder / device)
    for device, process in processes.items():
        out, err = process.communicate(timeout=TIMEOUT_S)
        if process.returncode:
            raise RuntimeError(f"{module} on {device} ended with {process.returncode}:\n{err[-_LAST_WORDS:]}")
        found[device] = json.loads(out.splitlines()[-1])
    return found
