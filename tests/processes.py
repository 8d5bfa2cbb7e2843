"""Tests' processes: with a clean environment, and what they did."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import openhpu

# Made once for all tests: each process would compile them anew, which takes longer than most recipes.
HEADERS = str(Path(__file__).resolve().parents[1] / "build" / "headers")
# Variables that would change what a script does; each test names the ones that it is about.
OURS = (
    "PT_", "OPENHPU_", "HABANA_", "HLS_", "LOG_LEVEL_", "LOCAL_", "RANK", "ENABLE_CONSOLE", "GRAPH_VISUALIZATION",
    "TORCH_DEVICE",
)  # fmt: skip


def clean_environment(home: Path, **variables: str) -> dict[str, str]:
    """The environment without OURS, with the tested code, HEADERS, no module locks and a home folder of its own."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    source = str(Path(openhpu.__file__).parents[1])
    ours = {"PYTHONPATH": source, "OPENHPU_MODULE_LOCKS": "0", "OPENHPU_HEADER_CACHE": HEADERS, "HOME": str(home)}
    return {**clean, **ours, **variables}


class Result:
    """What a script did."""

    def __init__(self, process: subprocess.CompletedProcess[str]) -> None:
        self.code = process.returncode
        self.out = process.stdout.strip()
        self.err = process.stderr.strip()

    @property
    def last(self) -> str:
        """The last line of stderr: the error of a script that failed."""
        return self.err.splitlines()[-1] if self.err else ""


def run_code(
    code: str, folder: Path, environment: dict[str, str], warnings: str, fails: bool, timeout: float = 300
) -> Result:
    """Run Python code in `folder`; `fails`: whether it must."""
    return _run(["-W", warnings, "-c", textwrap.dedent(code)], folder, environment, fails, timeout)


def run_file(code: str, folder: Path, environment: dict[str, str], fails: bool, timeout: float = 300) -> Result:
    """Run Python code as the file `script.py` in `folder`, for what needs one; `fails`: whether it must."""
    (folder / "script.py").write_text(textwrap.dedent(code))
    return _run(["script.py"], folder, environment, fails, timeout)


def _run(arguments: list[str], folder: Path, environment: dict[str, str], fails: bool, timeout: float) -> Result:
    process = subprocess.run(
        [sys.executable, "-X", "faulthandler", *arguments],
        env=environment, capture_output=True, text=True, cwd=folder, timeout=timeout, check=False,
    )  # fmt: skip
    assert (process.returncode != 0) == fails, process.stdout + process.stderr
    return Result(process)
