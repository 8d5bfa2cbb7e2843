"""An environment for each release of PyTorch, in `build/versions/TORCH-pyPYTHON/env`."""

import os
import re
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from commands import child
from release import FOLDER, ROOT

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
_PIP_S = 1800.0  # for PyTorch's build for CUDA, several gigabytes
_BUILD_S = 2400.0
_TOOLS = ("setuptools>=77", "wheel", "cmake>=3.22", "ninja")
# Optional dependencies of pyproject.toml that tests need; the linters are left out.
_TESTS = (
    "numpy",
    "pybind11",
    "pytest",
    "pytest-xdist",
    "hypothesis",
    "expecttest",
    "scipy",
    "scikit-learn",
    "tqdm",
    "torchviz",
    "pillow",
)
# Subcommands of `openhpu`.
_DISTRIBUTIONS = ("./openhpu-predict", "./openhpu-port", "./openhpu-tpc", "./openhpu-record")


class StepError(RuntimeError):
    """A step failed; says which, how, and the end of what it printed."""


class Version(NamedTuple):
    torch: str
    python: str

    @property
    def name(self) -> str:
        return f"{self.torch}-py{self.python}"

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    @property
    def environment(self) -> Path:
        return self.folder / "env"

    @property
    def bin(self) -> Path:
        return self.environment / "bin"


# The oldest and the newest Python that are supported, the newest with the newest PyTorch.
VERSIONS = (Version("2.13.0", "3.11"), Version("2.14.1", "3.11"), Version("2.15.0", "3.13"))


def find_python(version: str) -> str | None:
    """A Python of this version, "3.13": on PATH or among pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [str(path) for path in sorted(pyenv.glob(f"{version}.*/bin/python{version}"))]
    return next(iter(found), None) or shutil.which(f"python{version}")


def checked(what: str, argv: list[str], seconds: float, log: Path, env: dict[str, str] | None = None) -> child.Ended:
    """Run a step. StepError where it fails."""
    return child.run(argv, seconds=seconds, log=log, env=env, cwd=ROOT).checked(what, StepError)


def variables(version: Version) -> dict[str, str]:
    """The environment variables of a step: the environment's programs first."""
    return {**os.environ, "PATH": f"{version.bin}{os.pathsep}{os.environ['PATH']}"}


def has_torch(version: Version) -> bool:
    """Whether the environment has this PyTorch and the tests' packages."""
    (found,) = [*version.environment.glob("lib/python*/site-packages/torch/version.py")] or [None]
    if found is None:
        return False
    packages = (name.replace("-", "_") for name in _TESTS)
    if not all(any(found.parents[1].glob(f"{name}-*.dist-info")) for name in packages):
        return False
    return bool(re.search(rf"__version__ = '{re.escape(version.torch)}(\+\w+)?'", found.read_text()))


def make(version: Version, seconds: float) -> None:
    """The environment, with PyTorch and the tests' packages, where there is none. StepError."""
    if has_torch(version):
        return
    python = find_python(version.python)
    if python is None:
        raise StepError(f"no Python {version.python} on PATH or among pyenv's; install one")
    version.folder.mkdir(parents=True, exist_ok=True)
    log = version.folder / "environment.txt"
    checked("venv", [python, "-m", "venv", "--clear", str(version.environment)], 120, log)
    pip = [str(version.bin / "pip"), "install", "--disable-pip-version-check", "--no-cache-dir"]
    checked("pip", [*pip, f"torch=={version.torch}", *_TOOLS, *_TESTS], min(seconds, _PIP_S), log)


def build(version: Version, seconds: float) -> None:
    """The core of this PyTorch, into the checkout, and the project installed editable in the environment. StepError."""
    install = [str(version.bin / "pip"), "install", "--disable-pip-version-check", "--no-build-isolation", "--no-deps"]
    # Of setup.py alone: the device would report an unknown variable.
    folder = str(version.folder / "core")
    env = {**variables(version), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "OPENHPU_BUILD_FOLDER": folder}
    every = (arg for folder in (".", *_DISTRIBUTIONS) for arg in ("-e", folder))
    checked("build", [*install, *every], min(seconds, _BUILD_S), version.folder / "build.txt", env)
