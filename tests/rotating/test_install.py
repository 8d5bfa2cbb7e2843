"""Installations from one clone: into one environment after another, and as a wheel."""

import importlib.machinery
import os
import shutil
import sys
import textwrap
import venv
import zipfile

import pytest
import torch

from commands import child
from openhpu.integration import compat
from release import newcomer
from tests.rotating.shards import LIMIT_S

SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]


class Environment:
    """A virtual environment that finds what the tests' own has, but nothing of this project."""

    def __init__(self, path, packages):
        self.path = path
        venv.create(path, with_pip=False)
        (lib,) = path.glob("lib/python*/site-packages")
        (lib / "packages.pth").write_text(f"{packages}\n")
        self.python = str(path / "bin" / "python")

    def install(self, *what, tools, cwd):
        command = [sys.executable, "-m", "pip", "--python", self.python, "install", "--no-deps", "--no-build-isolation"]
        command += ["--no-index", "--disable-pip-version-check", "--force-reinstall", "-v", *what]
        return run(command, cwd, PATH=os.pathsep.join((str(tools), os.environ["PATH"])))

    def run(self, code, folder, **environment):
        return run([self.python, "-c", textwrap.dedent(code)], folder, **environment)


def run(command, cwd, fails=False, seconds=LIMIT_S, **environment):
    """What a command said; `fails`: whether it must."""
    ours = ("PT_", "OPENHPU_", "HABANA_", "PYTHONPATH", "LOCAL_RANK", "RANK")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    clean |= {"OPENHPU_MODULE_LOCKS": "0", "HOME": str(cwd), **environment}
    done = child.run(command, seconds=seconds, cwd=cwd, env=clean)
    assert (done.code != 0) == fails, f"{done.how}: {done.output[-4000:]}"
    assert not done.timed_out, f"{done.how}: {done.output[-4000:]}"
    return done.output


@pytest.fixture
def tools(tmp_path):
    """cmake and ninja in a folder of their own, as pip's isolated builds have them; it can be deleted."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for tool in ("cmake", "ninja"):
        (folder / tool).symlink_to(shutil.which(tool))
    return folder


WORKS = """
    import pathlib, torch, openhpu
    import habana_frameworks.torch.core as htcore
    assert str(pathlib.Path(openhpu.__file__)).startswith({prefix!r}), openhpu.__file__
    x = torch.arange(6.0).view(2, 3).to("hpu")
    print((x @ x.t()).sum().item(), torch.rand(3, device="hpu").shape, torch.hpu.get_device_name())
"""
ANSWER = "83.0 torch.Size([3]) "


def test_one_clone_for_several_environments(clone, packages, tools, tmp_path):
    """The second finds nothing of the first, whose tools are gone; then a wheel, without a compiler."""
    first = Environment(tmp_path / "first", packages)
    said = first.install(".", tools=tools, cwd=clone)
    assert "the core was built in " in said  # how long a fresh clone takes
    print(next(line for line in said.splitlines() if "the core was built in " in line).strip())
    assert ANSWER in first.run(WORKS.format(prefix=str(first.path)), tmp_path)
    shutil.rmtree(first.path)
    shutil.rmtree(tools)

    others = tmp_path / "other-tools"
    others.mkdir()
    for tool in ("cmake", "ninja"):
        (others / tool).symlink_to(shutil.which(tool))
    second = Environment(tmp_path / "second", packages)
    second.install(".", tools=others, cwd=clone)
    assert ANSWER in second.run(WORKS.format(prefix=str(second.path)), tmp_path)

    wheels = tmp_path / "wheels"
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "-w",
        str(wheels),
        ".",
    ]
    run(command, clone, PATH=os.pathsep.join((str(others), os.environ["PATH"])))
    (wheel,) = wheels.glob("openhpu-*.whl")
    # A core for this PyTorch and Python, and nothing else that was compiled.
    libraries = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith((".so", ".o"))]
    release = compat.release(torch.__version__)
    cores = f"openhpu/cores/{release}"
    assert sorted(libraries) == [f"openhpu/_machine{SUFFIX}", f"{cores}/_C{SUFFIX}", f"{cores}/interface.o"]
    shutil.rmtree(clone)  # a wheel needs nothing of it
    assert newcomer.main(str(wheel)) == 0
