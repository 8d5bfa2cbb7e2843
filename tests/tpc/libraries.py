"""Libraries of kernels for tests, built once for each text."""

import hashlib
from pathlib import Path

import torch

from commands import ROOT
from openhpu import _C
from openhpu_tpc.command import main
from openhpu_tpc.loading import Library

BUILT = ROOT / "build" / "tests" / "tpc"
DISTRIBUTION = ROOT / "openhpu-tpc" / "src" / "openhpu_tpc"


def _state() -> bytes:
    """Changes with the language and the driver, so that a changed one builds anew."""
    files = sorted(path for path in DISTRIBUTION.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return b"".join(path.read_bytes() for path in files)


def built(files: dict[str, str], *options: str, checks: bool = False) -> Path:
    """The path of a library of these files; kernels of descriptions are added by the command."""
    key = hashlib.sha256(repr((sorted(files.items()), options, checks)).encode() + _state()).hexdigest()[:20]
    folder = BUILT / key
    target = folder / "libkernels.so"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)
        given = [str(folder / name) for name in files if not name.endswith(".h")]
        partial = folder / "partial.so"
        without = [] if checks else ["--no-checks"]
        assert main(["build", *given, "-o", str(partial), *without, *options]) == 0
        partial.rename(target)
    return target


def make_known(path: Path) -> None:
    """Let the device look up kernels in this library too, as if GC_KERNEL_PATH listed it when the device was opened."""
    torch.zeros(1, device="hpu")
    _C.set_kernel_libraries([str(path)])


def library(files: dict[str, str], *options: str, checks: bool = False) -> Library:
    """The library of these files, loaded."""
    return Library(built(files, *options, checks=checks))
