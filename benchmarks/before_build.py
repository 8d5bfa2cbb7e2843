"""Another commit of this repository, built beside this one in build/before/COMMIT: sources, environment, caches.

The environment has the packages of the running one, PyTorch above all, and openhpu of that commit in front of them.
What was built is kept.
"""

import contextlib
import errno
import io
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from commands import BUILD, ROOT, child

FOLDER = BUILD / "before"
ROOM = 2 << 30  # bytes: sources, objects and recipes of a commit
BUILD_S = 2400.0
_VENV_S = 120.0
_GIT_S = 60.0
_FULL = os.strerror(errno.ENOSPC)


class BuildError(RuntimeError):
    """A commit cannot be built; one sentence."""


class Side(NamedTuple):
    """One of the two that are compared: its name in tables, its Python, the folder of its caches."""

    name: str
    python: Path
    folder: Path

    def environment(self) -> dict[str, str]:
        """The variables that keep its recipes and headers apart from the other's."""
        return {
            "PT_HPU_RECIPE_CACHE_CONFIG": str(self.folder / "recipes"),
            "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "inductor"),
            "OPENHPU_HEADER_CACHE": str(self.folder / "headers"),
        }


def resolve(commit: str, root: Path = ROOT) -> str:
    """The full name of a commit. BuildError if the repository has none of that name."""
    asked = ["git", "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}"]
    found = subprocess.run(asked, cwd=root, capture_output=True, text=True, timeout=_GIT_S)
    if found.returncode:
        raise BuildError(f"{root} has no commit {commit!r}; `git log` shows those that it has")
    return found.stdout.strip()


def today(folder: Path = FOLDER) -> Side:
    """This checkout, as `make build` has built it. Its environment is made as the other's is."""
    with _disk(folder / "today"):
        return Side("today", _environment(folder / "today", [ROOT / "src"]), folder / "today")


def built(commit: str, seconds: float = BUILD_S, root: Path = ROOT, folder: Path = FOLDER) -> Side:
    """A commit, which is built where it is not yet. `commit`: its full name. BuildError if that fails."""
    own = folder / commit
    source, ready = own / "source", own / "ready"
    side = Side(commit[:8], own / "env" / "bin" / "python", own)
    if ready.exists():
        return side
    with _disk(own):
        own.mkdir(parents=True, exist_ok=True)
        if (free := shutil.disk_usage(own).free) < ROOM:
            raise OSError(errno.ENOSPC, f"only {free >> 20} MiB are free", str(own))
        if not (source / "setup.py").exists():
            _check_out(commit, source, root)
        _environment(own, [])
        _build(side, source, seconds)
        ready.write_text("built\n")
    return side


@contextlib.contextmanager
def _disk(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise BuildError(_no_room(folder)) from error


def _no_room(folder: Path) -> str:
    return f"the disk of {folder} is full: another commit needs {ROOM >> 30} GiB there; make room and run again"


def _check_out(commit: str, source: Path, root: Path) -> None:
    archive = subprocess.run(["git", "archive", commit], cwd=root, capture_output=True, check=True, timeout=_GIT_S)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(source, filter="data")


def _environment(folder: Path, first: list[Path]) -> Path:
    """The Python of an environment in `folder`/env that finds packages in `first`, then those of the running one."""
    environment = folder / "env"
    python = environment / "bin" / "python"
    if not python.exists():
        command = [sys.executable, "-m", "venv", "--without-pip", str(environment)]
        _checked(child.run(command, seconds=_VENV_S), "venv", folder)
    packages = sysconfig.get_path("purelib", vars={"base": str(environment), "platbase": str(environment)})
    # Not site.addsitedir: the running environment's own .pth files would put its openhpu in front.
    paths = [*first, sysconfig.get_path("purelib")]
    Path(packages, "beside.pth").write_text("".join(f"{path}\n" for path in paths))
    return python


def _build(side: Side, source: Path, seconds: float) -> None:
    tools = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    options = ["-v", "--disable-pip-version-check", "--no-build-isolation", "--no-deps", "--ignore-installed"]
    ended = child.run(
        [str(side.python), "-m", "pip", "install", *options, "-e", str(source)],
        seconds=seconds,
        log=side.folder / "build.txt",
        env={**os.environ, "PATH": tools, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        cwd=side.folder,
    )
    _checked(ended, side.name, side.folder)


def _checked(ended: child.Ended, what: str, folder: Path) -> None:
    if not ended.code:
        return
    said = ended.errors + ended.output
    if _FULL in said:
        raise BuildError(_no_room(folder))
    lines = said.splitlines()
    wrong = next((line.strip() for line in lines if "error" in line.lower()), lines[-1] if lines else "it said nothing")
    log = f"; {ended.log} has all of it" if ended.log else ""
    raise BuildError(f"{what} does not build ({ended.how}): {wrong}{log}")
