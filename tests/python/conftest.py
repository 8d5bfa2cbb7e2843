"""Fixtures of the Python half's tests. What needs a process of its own runs through `script`."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import openhpu

_OURS = ("PT_", "OPENHPU_", "HABANA_", "HLS_", "LOG_LEVEL_", "LOCAL_", "RANK", "ENABLE_CONSOLE")


def pytest_configure(config):
    config.addinivalue_line("filterwarnings", "error")


class Result:
    def __init__(self, process):
        self.code = process.returncode
        self.out = process.stdout.strip()
        self.err = process.stderr.strip()

    @property
    def last(self):
        """The last line of stderr: the error of a script that failed."""
        return self.err.splitlines()[-1]


@pytest.fixture
def script(tmp_path):
    """Run Python code in a process of its own, with warnings as errors and no module locks; returns its Result."""

    def run(code, *, warnings="error", fails=False, **environment):
        clean = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        clean.update(
            PYTHONPATH=str(Path(openhpu.__file__).parents[1]),
            OPENHPU_MODULE_LOCKS="0",
            TORCH_DEVICE_BACKEND_AUTOLOAD="0",  # scripts say themselves when the device is loaded
            HOME=str(tmp_path),
        )
        clean.update(environment)
        process = subprocess.run(
            [sys.executable, "-W", warnings, "-c", textwrap.dedent(code)],
            env=clean, capture_output=True, text=True, cwd=tmp_path, timeout=300,
        )  # fmt: skip
        assert (process.returncode != 0) == fails, process.stderr
        return Result(process)

    return run


@pytest.fixture(scope="session")
def hpu():
    """torch.hpu, loaded."""
    os.environ["OPENHPU_MODULE_LOCKS"] = "0"
    import habana_frameworks.torch

    habana_frameworks.torch.hpu.init()
    return habana_frameworks.torch.hpu


@pytest.fixture
def environment(monkeypatch):
    """Set environment variables of the table for one test, and unset all others."""

    def set_only(**values):
        for name in list(os.environ):
            if name.startswith(_OURS):
                monkeypatch.delenv(name)
        for name, value in values.items():
            monkeypatch.setenv(name, value)

    set_only()
    return set_only
