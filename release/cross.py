"""64-bit Arm on an x86-64 machine with Debian 12: the cross compiler, cores, and an emulated Python with PyTorch.

Everything is in `build/aarch64`. Debian's packages for arm64 come from its archive, by apt-get with a state of its own,
PyTorch and what it needs from the package index.
"""

import shlex
import shutil
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

from commands.budget import Budget
from release import ROOT
from release.environments import PIP, VERSIONS, StepError, checked

COMPILER = "aarch64-linux-gnu-g++"
EMULATOR = "qemu-aarch64"
LIBRARIES = "/usr/aarch64-linux-gnu"
TOOLS = "apt install g++-aarch64-linux-gnu qemu-user"
OPTIONS = (
    "-DCMAKE_SYSTEM_NAME=Linux",
    "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
    f"-DCMAKE_CXX_COMPILER={COMPILER}",
    f"-DCMAKE_CROSSCOMPILING_EMULATOR={EMULATOR};-L;{LIBRARIES}",
)
FOLDER = ROOT / "build" / "aarch64"
BUILT = FOLDER / "openhpu"  # as src/openhpu has it
SUFFIX = f".cpython-{sys.version_info.major}{sys.version_info.minor}-aarch64-linux-gnu.so"
# What setuptools gives a wheel then.
WHEEL = {"_PYTHON_HOST_PLATFORM": "linux-aarch64", "SETUPTOOLS_EXT_SUFFIX": SUFFIX, "OPENHPU_BUILT_CORES": str(BUILT)}

TORCH = VERSIONS[0].torch
PYTHON = "3.11"  # Debian 12's
SYSTEM = FOLDER / "system"
RUN, CXX = SYSTEM / "usr/bin/python", SYSTEM / "usr/bin/c++"
_ARCHIVE = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main\n"
_DEBIAN = (f"python{PYTHON}", "libstdc++6", "libgomp1", "libnuma1")
# PyTorch's library for Arm's oneDNN reads it. A Neoverse N1.
_CPUINFO = """\
processor	: {}
BogoMIPS	: 243.75
Features	: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp
CPU implementer	: 0x41
CPU architecture: 8
CPU variant	: 0x3
CPU part	: 0xd0c
CPU revision	: 1

"""
# The interpreter finds itself, and so its children, by the name of this script. Recipes are for any processor: the
# cross compiler knows none that is native.
_RUN = f'#!/bin/sh\nexec {EMULATOR} -L {SYSTEM} -0 "$0" {SYSTEM}/usr/bin/python{PYTHON} "$@"\n'
_CXX = f'#!/bin/bash\nexec {COMPILER} "${{@/-march=native/-pipe}}"\n'


def missing(*tools: str) -> str | None:
    """Of programs that are not installed: what to do; None where all are."""
    absent = [tool for tool in tools if shutil.which(tool) is None]
    return f"{' and '.join(absent)} not found: {TOOLS}" if absent else None


def index(target: Path, *arguments: str) -> list[str]:
    """pip's command that installs packages of the index for Arm into a folder."""
    tags = [f"manylinux_2_{minor}_aarch64" for minor in range(17, 37)]
    platforms = [word for tag in ("manylinux2014_aarch64", *tags) for word in ("--platform", tag)]
    return [*PIP, "install", "--no-cache-dir", "--only-binary=:all:", *platforms, "--target", str(target), *arguments]


def _at_once(folder: Path, fill: Callable[[Path], object]) -> None:
    """Fill a folder; it has its name only when it is complete."""
    new = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    fill(new)
    new.rename(folder)


def _bring(folder: Path, budget: Budget, *arguments: str) -> None:
    log = FOLDER / "pip.txt"
    _at_once(folder, lambda new: checked("PyTorch for Arm", index(new, *arguments), budget.seconds(1800), log))


def headers(version: str, budget: Budget) -> Path:
    """The folder of a PyTorch for Arm, with its headers and libraries. StepError."""
    for folder in (packages_of(version), FOLDER / f"torch-{version}"):
        if folder.exists():
            return folder / "torch"
    _bring(folder, budget, "--no-deps", f"torch=={version}")
    return folder / "torch"


def options() -> str:
    """CMAKE_ARGS of a core, which goes to BUILT."""
    include = sysconfig.get_path("include")  # the same for both, and CMake does not look for it then
    return shlex.join([*OPTIONS, f"-DOPENHPU_OUTPUT_DIR={BUILT}", f"-DPython3_INCLUDE_DIR={include}"])


def packages_of(version: str) -> Path:
    """The folder of a PyTorch with all that it needs to be imported."""
    return FOLDER / f"packages-{version}"


def packages(budget: Budget) -> Path:
    """PyTorch for Arm with what it needs and the tests' packages: 3.9 GB, as the index has the build for CUDA only."""
    folder = packages_of(TORCH)
    if not folder.exists():
        _bring(folder, budget, f"torch=={TORCH}", "numpy", "pytest")
    return folder


def system(budget: Budget) -> None:
    """Debian's Python for arm64 with its libraries, RUN and CXX. StepError."""
    if f"{sys.version_info.major}.{sys.version_info.minor}" != PYTHON:
        raise StepError(f"Debian's Python for arm64 is {PYTHON}: make an environment with `make PYTHON=python{PYTHON}`")
    if SYSTEM.exists():
        return
    state = FOLDER / "apt"
    for folder in (state / "lists/partial", state / "archives/partial"):
        folder.mkdir(parents=True, exist_ok=True)
    (state / "status").write_text("")  # nothing is installed there
    (state / "sources.list").write_text(_ARCHIVE)
    given = {
        "APT::Architecture": "arm64",
        "APT::Architectures": "arm64",
        "Dir::State": state,
        "Dir::Cache": state,
        "Dir::State::status": state / "status",
        "Dir::Etc::sourcelist": state / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Debug::NoLocking": "1",
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "-q", "-y", *(f"-o{name}={value}" for name, value in given.items())]
    checked("apt-get update", [*apt, "update"], budget.seconds(300), FOLDER / "apt.txt")
    install = [*apt, "install", "--download-only", "--no-install-recommends", *_DEBIAN]
    checked("apt-get", install, budget.seconds(300), FOLDER / "apt.txt")
    _at_once(SYSTEM, lambda new: _unpack(new, state / "archives", budget))


def _unpack(new: Path, archives: Path, budget: Budget) -> None:
    for path in sorted(archives.glob("*.deb")):
        checked(path.name, ["dpkg-deb", "-x", str(path), str(new)], budget.seconds(60), FOLDER / "apt.txt")
    (new / "proc").mkdir()
    (new / "proc/cpuinfo").write_text("".join(map(_CPUINFO.format, range(2))))
    found = new / "usr/lib/python3/dist-packages/packages.pth"  # not by PYTHONPATH, which tests' scripts set anew
    found.parent.mkdir(parents=True, exist_ok=True)
    found.write_text(f"{packages_of(TORCH)}\n")
    for path, text in ((RUN, _RUN), (CXX, _CXX)):
        script = new / path.relative_to(SYSTEM)
        script.write_text(text)
        script.chmod(0o755)
