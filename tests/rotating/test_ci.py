"""The workflow of docs/ci.md and the Dockerfile's script, as they are in the files, for a small library in new folders.

Two things differ from a runner: openhpu's wheel has the core that `make build` has built, and pip finds PyTorch, pytest
and setuptools by PYTHONPATH, not on an index.
"""

import json
import os
import shutil
import sys
import textwrap

import pytest
import torch

from commands import ROOT
from openhpu.integration import compat
from tests import workflow
from tests.rotating.shards import LIMIT_S
from tests.rotating.test_install import SUFFIX, run

LIBRARY = {
    "pyproject.toml": """
        [build-system]
        requires = ["setuptools"]
        build-backend = "setuptools.build_meta"
        [project]
        name = "doubled"
        version = "1"
        [tool.setuptools]
        py-modules = ["doubled"]
        """,
    "doubled.py": """
        def double(x):
            return x * 2
        """,
    "tests/test_doubled.py": """
        import pytest, torch
        from doubled import double

        @pytest.mark.hpu_no_fallback
        def test_double():
            x = torch.ones(3, device="hpu")
            assert double(x).sum().item() == 6
        """,
}


@pytest.fixture(scope="module")
def wheel(clone, tmp_path_factory):
    """openhpu's, with the core of this PyTorch that was built in place."""
    cores = f"cores/{compat.release(torch.__version__)}"
    for name in (f"_machine{SUFFIX}", f"{cores}/_C{SUFFIX}", f"{cores}/interface.o"):
        (clone / "src/openhpu" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / "src/openhpu" / name, clone / "src/openhpu" / name)
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
    run([*command, "-w", str(folder), "."], clone, OPENHPU_BUILT_CORES=str(clone / "src/openhpu"))
    (made,) = folder.glob("openhpu-*.whl")
    return made


class Runner:
    """A home folder and the library's checkout, and nothing else."""

    MORE = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"}  # noqa: RUF012

    def __init__(self, folder, packages, seconds=LIMIT_S):
        self.home = folder / "home"
        self.library = folder / "library"
        self._packages = packages
        self._seconds = seconds
        self.home.mkdir()

    def checkout(self):
        for name, text in LIBRARY.items():
            (self.library / name).parent.mkdir(parents=True, exist_ok=True)
            (self.library / name).write_text(textwrap.dedent(text))

    def run(self, *command, fails=False):
        return run(
            command,
            self.library,
            fails,
            self._seconds,
            HOME=str(self.home),
            PYTHONPATH=str(self._packages),
            GITHUB_ACTIONS="true",
            PATH=os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"])),
            **self.MORE,
        )

    def steps(self, steps, wheel):
        """Do a workflow's steps; what the last one said."""
        said = ""
        for step in steps:
            if step.action == "checkout":
                self.checkout()
            elif step.action == "cache":
                wheels = self.home / step.path.removeprefix("~/") / "wheels"
                wheels.mkdir(parents=True)
                shutil.copy2(wheel, wheels)
            elif step.command:
                said = self.run("bash", "-e", "-c", step.command)
        return said

    def check(self, said):
        """The library's test ran on hpu, by the installed wheel, and the report has it."""
        (row,) = json.loads((self.library / "hpu.json").read_text())["tests"]
        assert (row["test"], row["outcome"]) == ("tests/test_doubled.py::test_double", "passed"), said
        assert [wait["op"] for wait in row["waits"]]
        assert row["peak_bytes"] > 0
        assert "1 passed" in said
        assert (self.library / "hpu.html").is_file()
        assert [*self.home.glob("venv/lib/python*/site-packages/openhpu/cores/*/_C*.so")]


@pytest.fixture
def runner(tmp_path, packages):
    return Runner(tmp_path, packages)


def test_the_workflow(runner, wheel):
    steps = workflow.steps(workflow.DOCUMENT.read_text())
    runner.check(runner.steps(steps, wheel))
    # A step that fails fails the test.
    command = steps[-1].command.replace("report", "page")
    assert "unrecognized arguments" in runner.run("bash", "-e", "-c", command, fails=True)


def test_the_script_of_the_dockerfile(runner, wheel):
    runner.checkout()
    (runner.library / "ci").mkdir()
    shutil.copy2(ROOT / "release/ci/steps.sh", runner.library / "ci")
    shutil.copy2(wheel, runner.library / "ci")
    runner.run("sh", "ci/steps.sh", "install")
    runner.check(runner.run("sh", "ci/steps.sh", "test"))
    assert "expected install or test, got 'all'" in runner.run("sh", "ci/steps.sh", "all", fails=True)
