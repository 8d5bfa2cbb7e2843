"""The second workflow of docs/ci.md: the plugin's unit tests in new folders, with the commands as the file has them.

What differs from a runner: openhpu's wheel has the core that was built in place, and pip finds the lane's packages by
PYTHONPATH. It gets from the index what builds the plugin.
"""

import json
import os
import re
import shutil

import pytest

from commands import BUILD, ROOT
from ecosystem.install import TORCHVISION
from tests import workflow
from tests.rotating.conftest import clone, packages  # noqa: F401 - fixtures
from tests.rotating.test_ci import Runner, wheel  # noqa: F401

_LANE = BUILD / "ecosystem" / "vllm"
_MOST_S = 1800  # of a step; a runner of its own with two cores takes less than 900


class Plugin(Runner):
    """A home folder and the plugin's checkout with the two files."""

    MORE = {"PIP_NO_INDEX": "0", "PIP_NO_BUILD_ISOLATION": "1", "SETUPTOOLS_SCM_PRETEND_VERSION": "0.28.0"}  # noqa: RUF012
    MORE |= {"PYTHONSAFEPATH": ""}  # the plugin's tests are a package of its folder

    def checkout(self):
        shutil.copytree(_LANE / "vllm-gaudi", self.library)
        (self.library / "ci").mkdir()
        for file in ("examples/serve_llm.py", "ecosystem/requirements/vllm.txt"):
            shutil.copy2(ROOT / file, self.library / "ci")


@pytest.fixture
def site(packages, tmp_path):  # noqa: F811
    """The lane's packages but for the plugin, then this environment's."""
    folder = tmp_path / "site"
    folder.mkdir()
    for path in (_LANE / "site-packages").iterdir():
        if not re.search("openhpu|habana|vllm_gaudi|pytest_compat", path.name):
            (folder / path.name).symlink_to(path)
    return os.pathsep.join(map(str, (folder, TORCHVISION, packages)))


def test_the_workflow_of_the_plugin(tmp_path, site, wheel):  # noqa: F811
    runner = Plugin(tmp_path, site, seconds=_MOST_S)
    said = runner.steps(workflow.steps(workflow.DOCUMENT.read_text(), 1), wheel)
    rows = {row["test"]: row["outcome"] for row in json.loads((runner.library / "hpu.json").read_text())["tests"]}
    assert {*rows.values()} == {"passed", "skipped"}, said
    assert len(rows) > 800, said
    for file in ("test_prefix_caching", "test_embedding", "worker/test_hpu_model_runner", "ops/test_hpu_fp8"):
        assert any(outcome == "passed" for test, outcome in rows.items() if f"{file}.py" in test), file
