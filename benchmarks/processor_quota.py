"""A control group with a quota of processor time, as containers have it."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PERIOD_US = 100_000
_ROOT = Path("/sys/fs/cgroup")


@contextmanager
def group(cores: float, root: Path = _ROOT) -> Iterator[Path]:
    """Make a group whose processes together use at most `cores` cores, and remove it at the end.

    Works with control groups of both versions. Raises OSError where this user may not make one.
    """
    old = root / "cpu"
    folder = Path(tempfile.mkdtemp(prefix="openhpu-", dir=old if old.is_dir() else root))
    try:
        quota = int(cores * _PERIOD_US)
        if old.is_dir():
            (folder / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (folder / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (folder / "cpu.max").write_text(f"{quota} {_PERIOD_US}")
        yield folder
    finally:
        folder.rmdir()  # its processes have ended


def enter(folder: Path) -> None:
    """Move this process into a group."""
    (folder / "cgroup.procs").write_text(str(os.getpid()))
