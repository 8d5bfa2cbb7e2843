"""What the tests of installations share."""

import shutil
import subprocess

import pytest

from commands import ROOT
from release import newcomer


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """What is committed or about to be, without anything that was built."""
    path = tmp_path_factory.mktemp("clone") / "openhpu"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in listed.splitlines():
        if (ROOT / name).is_file():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, path / name)
    return path


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """PyTorch and the others; not what registers this project's editable installations, whose entry points fail."""
    return newcomer.packages(tmp_path_factory.mktemp("packages"))
