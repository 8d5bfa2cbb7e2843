"""`make wheel`: in `dist/`, the wheel of openhpu for this Python, with a core for each supported PyTorch, and those of
lightning-habana, openhpu-predict and openhpu-port.

It takes the PyTorches of other releases than the environment's from the index, for their headers and libraries only.
auditwheel gives the wheel its tag, the C library that it needs; nothing of PyTorch goes into it.
"""

import argparse
import importlib.machinery
import os
import sys
import sysconfig
from pathlib import Path

from commands.budget import Budget
from openhpu.integration import compat
from release import FOLDER, ROOT
from release.environments import VERSIONS, StepError, Version, checked

MINUTES = 60.0
DIST = ROOT / "dist"
WORK = ROOT / "build" / "wheel"
# PyTorch's, found at run time since PyTorch has loaded them.
_EXCLUDED = ("libtorch*", "libc10*", "libgomp*")
_PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def torch_folder(version: str, budget: Budget) -> Path:
    """A PyTorch of this release for this Python: the environment's own, or one that is brought here."""
    own = Path(sysconfig.get_path("platlib")) / "torch"
    if compat.release(version) == compat.release(installed(own)):
        return own
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    for folder in FOLDER.glob(f"{version}-py{sys.version_info.major}.{sys.version_info.minor}/env/lib/*/site-packages"):
        if (folder / "torch" / "version.py").exists():
            return folder / "torch"
    target = WORK / f"torch-{version}-{tag}"
    if not (target / "torch" / "version.py").exists():
        argv = [*_PIP, "install", "--no-cache-dir", "--no-deps", "--target", str(target), f"torch=={version}"]
        checked(f"PyTorch {version}", argv, budget.seconds(1800), WORK / "torch.txt")
    return target / "torch"


def installed(folder: Path) -> str:
    found: dict[str, str] = {}
    exec((folder / "version.py").read_text(), found)
    return found["__version__"]


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
    torch, python = torch_folder(version, budget), f"{sys.version_info.major}.{sys.version_info.minor}"
    own = torch.is_relative_to(sys.prefix)
    folder = ROOT / "build" / "ext" if own else Version(version, python).folder / "core"
    env = {**os.environ, "OPENHPU_BUILD_TORCH": str(torch), "OPENHPU_BUILD_FOLDER": str(folder)}
    argv = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    checked(f"core for PyTorch {version}", argv, budget.seconds(), WORK / f"core-{version}.txt", env)


def build(releases: list[str], budget: Budget) -> list[Path]:
    """The wheels, which are in DIST then. StepError."""
    for path in [*WORK.glob("*.whl"), *DIST.glob("*.whl")]:
        path.unlink()
    for name in (f"_C{importlib.machinery.EXTENSION_SUFFIXES[0]}", "interface.o"):
        for path in compat.CORES.glob(f"*/{name}"):
            path.unlink()  # no others
    for version in releases:
        with budget.doing(f"PyTorch {version}", "build"):
            core(version, budget)
    env = {**os.environ, "OPENHPU_BUILT_CORES": "1"}
    wheel = [*_PIP, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w"]
    checked("wheel", [*wheel, str(WORK), "."], budget.seconds(300), WORK / "wheel.txt", env)
    (made,) = WORK.glob("openhpu-*.whl")
    excluded = [word for name in _EXCLUDED for word in ("--exclude", f"{name}.so*")]
    argv = [sys.executable, "-m", "auditwheel", "repair", *excluded, "-w", str(DIST), str(made)]
    checked("auditwheel", argv, budget.seconds(300), WORK / "auditwheel.txt")
    for name in ("lightning-habana", "openhpu-predict", "openhpu-port"):
        checked("wheel", [*wheel, str(DIST), f"./{name}"], budget.seconds(300), WORK / f"{name}.txt")
    return sorted(DIST.glob("*.whl"))


if __name__ == "__main__":
    main()
