import json
import subprocess
import sys

import pytest

from tests.processes import clean_environment


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
    return clean_environment(tmp_path, OPENHPU_SMI_FOLDER="off", PT_HPU_RECIPE_CACHE_CONFIG=",,")


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
