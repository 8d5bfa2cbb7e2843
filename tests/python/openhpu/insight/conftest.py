import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import openhpu

_OURS = ("PT_", "OPENHPU_", "HABANA_", "HLS_", "LOG_LEVEL_", "LOCAL_", "RANK", "ENABLE_CONSOLE")


class Run:
    """What `openhpu run` did: exit code, outputs, and with --json what was seen."""

    def __init__(self, process):
        self.code, self.out, self.err = process.returncode, process.stdout, process.stderr

    @property
    def seen(self):
        return json.loads(self.out.splitlines()[-1])


@pytest.fixture
def environment_of_runs(tmp_path):
    """A clean environment, with a home and folders of its own."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    return clean | {
        "PYTHONPATH": str(Path(openhpu.__file__).parents[1]),
        "OPENHPU_MODULE_LOCKS": "0",
        "OPENHPU_SMI_FOLDER": "off",
        "PT_HPU_RECIPE_CACHE_CONFIG": ",,",
        "HOME": str(tmp_path),
    }


@pytest.fixture
def openhpu_run(tmp_path, environment_of_runs):
    """Run `openhpu run OPTIONS... script.py ARGUMENTS...`, where the script's text is given."""

    def run(code, *options, arguments=(), **environment):
        (tmp_path / "script.py").write_text(code)
        process = subprocess.run(
            [sys.executable, "-m", "openhpu", "run", *options, "script.py", *arguments],
            env=environment_of_runs | environment, capture_output=True, text=True, cwd=tmp_path, timeout=300,
        )  # fmt: skip
        return Run(process)

    return run
