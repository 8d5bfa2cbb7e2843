"""Commands of a few lines, as those of this project are: run, killed, and what they left behind."""

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def lives(process):
    """Whether a process of that number runs."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def processes_with(mark):
    """The command lines of processes that have it among their arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if mark.encode() in words:
            found.append(words)
    return found


def until(condition, seconds=20):
    """Wait for a condition; whether it came about in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


@pytest.fixture
def command(tmp_path):
    """Start Python code that uses `commands`, in a process of its own; its output goes to the file `said`."""
    started = []

    def start(code, **environment):
        path = tmp_path / f"command{len(started)}.py"
        path.write_text(textwrap.dedent(code))
        clean = {name: value for name, value in os.environ.items() if name != "BUDGET"}
        with (tmp_path / "said").open("ab") as said:
            process = subprocess.Popen(
                [sys.executable, str(path)],
                cwd=tmp_path,
                stdout=said,
                stderr=said,
                env={**clean, "PYTHONPATH": str(ROOT), **environment},
            )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait(10)
