"""`make wheel`: in `dist/`, the wheels of openhpu for this Python, with a core for each supported PyTorch, and those of
lightning-habana, openhpu-predict, openhpu-port, openhpu-tpc and openhpu-record.

One wheel is for this machine, one for 64-bit Arm, where its cross compiler is installed. It takes the PyTorches of
other releases than the environment's from the index, for their headers and libraries only. auditwheel gives a wheel its
tag, the C library that it needs; nothing of PyTorch goes into it.
"""

import argparse
import importlib.machinery
import os
import shutil
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

from commands.budget import Budget
from openhpu.integration import compat
from release import FOLDER, ROOT, cross
from release.environments import PIP, VERSIONS, StepError, Version, checked

MINUTES = 120.0
DIST = ROOT / "dist"
WORK = ROOT / "build" / "wheel"
# PyTorch's, found at run time since PyTorch has loaded them.
_EXCLUDED = ("libtorch*", "libc10*", "libgomp*")


def torch_folder(version: str, budget: Budget) -> Path:
    """A PyTorch of this release for this Python: the environment's own, or one that is brought here."""
    if compat.release(version) == compat.release(metadata.version("torch")):
        return Path(sysconfig.get_path("platlib")) / "torch"
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    for folder in FOLDER.glob(f"{version}-py{sys.version_info.major}.{sys.version_info.minor}/env/lib/*/site-packages"):
        if (folder / "torch" / "version.py").exists():
            return folder / "torch"
    target = WORK / f"torch-{version}-{tag}"
    if not (target / "torch" / "version.py").exists():
        argv = [*PIP, "install", "--no-cache-dir", "--no-deps", "--target", str(target), f"torch=={version}"]
        checked(f"PyTorch {version}", argv, budget.seconds(1800), WORK / "torch.txt")
    return target / "torch"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m release.wheel", description=__doc__)
    releases = [version.torch for version in VERSIONS]
    parser.add_argument("torch", nargs="*", choices=[[], *releases], help="releases of PyTorch; all, if none is given")
    chosen = parser.parse_args().torch or releases
    WORK.mkdir(parents=True, exist_ok=True)
    with Budget("make wheel", MINUTES) as budget:
        try:
            built = build(chosen, budget)
        except StepError as error:
            budget.say(str(error))
            raise SystemExit(1) from error
        budget.say(*(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e6:.1f} MB" for path in built))


def core(version: str, budget: Budget) -> None:
    """Build the core of a PyTorch in place: with what `make build` or `make versions` have compiled. StepError."""
    torch = torch_folder(version, budget)
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    own = torch.is_relative_to(sys.prefix)
    _compile(version, torch, ROOT / "build" / "ext" if own else Version(version, python).folder / "core", budget)


def arm_core(version: str, budget: Budget) -> None:
    """Build the core of a PyTorch for 64-bit Arm, into the folder of these. StepError."""
    folder = cross.FOLDER / f"core-{version}-py{sys.version_info.major}.{sys.version_info.minor}"
    _compile(version, cross.headers(version, budget), folder, budget, CMAKE_ARGS=cross.options())


def _compile(version: str, torch: Path, folder: Path, budget: Budget, **more: str) -> None:
    env = {**os.environ, "OPENHPU_BUILD_TORCH": str(torch), "OPENHPU_BUILD_FOLDER": str(folder), **more}
    argv = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    checked(f"core for PyTorch {version}", argv, budget.seconds(), WORK / f"{folder.parent.name}-{version}.txt", env)


def forget(cores: Path, suffix: str) -> None:
    """Remove the cores of other PyTorches, which are not to be in the wheel."""
    for name in (f"_C{suffix}", "interface.o", "lib*.so"):
        for path in cores.glob(f"*/{name}"):
            path.unlink()


def pack(target: Path, budget: Budget, **built: str) -> Path:
    """A wheel of the cores that were built (variables of setup.py say where), in `target`. StepError."""
    made = WORK / "made"
    shutil.rmtree(made, ignore_errors=True)
    argv = [*PIP, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(made), "."]
    checked("wheel", argv, budget.seconds(300), WORK / "wheel.txt", {**os.environ, **built})
    (wheel,) = made.glob("openhpu-*.whl")
    excluded = [word for name in _EXCLUDED for word in ("--exclude", f"{name}.so*")]
    argv = [sys.executable, "-m", "auditwheel", "repair", *excluded, "-w", str(target), str(wheel)]
    checked("auditwheel", argv, budget.seconds(300), WORK / "auditwheel.txt")
    return max(target.glob("openhpu-*.whl"), key=lambda path: path.stat().st_mtime_ns)


def build(releases: list[str], budget: Budget) -> list[Path]:
    """The wheels, which are in DIST then. StepError."""
    for path in DIST.glob("*.whl"):
        path.unlink()
    forget(compat.CORES, importlib.machinery.EXTENSION_SUFFIXES[0])
    for version in releases:
        with budget.doing(f"PyTorch {version}", "build"):
            core(version, budget)
    pack(DIST, budget, OPENHPU_BUILT_CORES=str(compat.CORES.parent))
    for name in ("lightning-habana", "openhpu-predict", "openhpu-port", "openhpu-tpc", "openhpu-record"):
        argv = [*PIP, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(DIST), f"./{name}"]
        checked("wheel", argv, budget.seconds(300), WORK / f"{name}.txt")
    if absent := cross.missing(cross.COMPILER):
        budget.say(f"no wheel for 64-bit Arm: {absent}")
    else:
        forget(cross.BUILT / "cores", cross.SUFFIX)
        for version in releases:
            with budget.doing(f"PyTorch {version} for 64-bit Arm", "build"):
                arm_core(version, budget)
        pack(DIST, budget, **cross.WHEEL)
    return sorted(DIST.glob("*.whl"))


if __name__ == "__main__":
    main()
