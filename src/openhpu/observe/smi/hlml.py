"""The shared object in which hlml's readers find how much memory of a device a process uses.

Three unsigned 64-bit numbers: the layout's version, 1; when they were written, in seconds since 1970; bytes in use.
"""

import os
import struct
import time
from pathlib import Path

_VERSION = 1
_RECORD = struct.Struct("=QQQ")
_SHARED = Path("/dev/shm")


def path_of(where: Path, module: int) -> Path:
    """This process's object for a module."""
    return where / f"hlml-openhpu-{module}-{os.getpid()}"


def name_of(path: Path) -> str:
    """As shm_open takes it; the path, where it lies in another folder."""
    return f"/{path.name}" if path.parent == _SHARED else str(path)


def write(file: int, used: int) -> None:
    """Replace the contents of the object."""
    os.pwrite(file, _RECORD.pack(_VERSION, int(time.time()), used), 0)
