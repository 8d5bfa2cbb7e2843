"""How this project's commands (tests, benchmarks, faults, lanes) run child processes, keep a budget and keep results.

It needs the standard library only, and is not installed with openhpu.
"""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Where locks and results are kept; a test that runs a command gives it a folder of its own.
BUILD = Path(os.environ.get("COMMANDS_BUILD") or ROOT / "build")
