"""Fixtures of the Python half's tests. What needs a process of its own runs through `script`."""

import os

import pytest

from tests.processes import OURS, clean_environment, run_code


@pytest.fixture
def script(tmp_path):
    """Run Python code in a process of its own, with warnings as errors and no module locks; its Result.

    `fresh`: as of `run_code`.
    """

    def run(code, *, warnings="error", fails=False, fresh=False, **environment):
        # Scripts say themselves when the device is loaded.
        variables = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", **environment}
        return run_code(code, tmp_path, clean_environment(tmp_path, **variables), warnings, fails, fresh=fresh)

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
            if name.startswith(OURS):
                monkeypatch.delenv(name)
        for name, value in values.items():
            monkeypatch.setenv(name, value)

    set_only()
    return set_only
