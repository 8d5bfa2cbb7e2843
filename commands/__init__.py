"""How this project's commands (tests, benchmarks, faults, lanes) run child processes, keep a budget and keep results.

It needs the standard library only, and is not installed with openhpu.
"""

import os
import socket
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Where locks and results are kept; a test that runs a command gives it a folder of its own.
BUILD = Path(os.environ.get("COMMANDS_BUILD") or ROOT / "build")


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
