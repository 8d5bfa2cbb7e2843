"""The file in which a process shows one of its devices.

A fixed record with a checksum, written in one piece: a reader that comes in the middle of a write sees that, and reads
again. A file whose process is gone, or whose number belongs to another process by now, does not count.
"""

import contextlib
import os
import struct
import tempfile
import time
import zlib
from pathlib import Path
from typing import NamedTuple

from openhpu import settings
from openhpu.settings import folders

_PREFIX = "openhpu-smi-"
_MAGIC = b"OHPUSMI1"
# magic, pid, start of the process, module, percent busy, bytes in use, capacity, name
_RECORD = struct.Struct("<8sIQIIQQ128s")
_CHECKSUM = struct.Struct("<I")


class State(NamedTuple):
    """A device of a process: its module's number, the share of time it was busy lately, memory in bytes."""

    pid: int
    module: int
    percent_busy: int
    used: int
    capacity: int
    command: str


def folder() -> Path | None:
    """Where the files lie; None if they were switched off."""
    name = settings.get("OPENHPU_SMI_FOLDER")
    if name == "off":
        return None
    if name:
        return Path(name)
    shared = Path("/dev/shm")
    return shared if os.access(shared, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())


def path_of(where: Path, module: int) -> Path:
    """This process's file for a module."""
    return where / f"{_PREFIX}{module}-{os.getpid()}"


def create(path: Path) -> int:
    """Open a new file, readable by all; one of that name is a dead process's. Returns its descriptor."""
    path.unlink(missing_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)


def write(file: int, state: State) -> None:
    """Replace the contents of the file."""
    record = _RECORD.pack(
        _MAGIC,
        state.pid,
        _start_of(state.pid),
        state.module,
        state.percent_busy,
        state.used,
        state.capacity,
        state.command.encode(errors="replace")[:128],
    )
    os.pwrite(file, record + _CHECKSUM.pack(zlib.crc32(record)), 0)


def read_all(where: Path | None) -> list[State]:
    """The data of live processes, by module and process."""
    if where is None:
        return []
    found: list[State] = []
    with contextlib.suppress(OSError):
        found += filter(None, map(_read, where.glob(f"{_PREFIX}*")))
    return sorted(found, key=lambda state: (state.module, state.pid))


def _read(path: Path) -> State | None:
    for _ in range(3):
        try:
            with open(folders.opened(path, os.O_RDONLY | os.O_NOFOLLOW), "rb", buffering=0) as file:
                owner = os.fstat(file.fileno()).st_uid
                text = file.read(_RECORD.size + _CHECKSUM.size)
        except OSError:
            return None
        record, checksum = text[: _RECORD.size], text[_RECORD.size :]
        if checksum == _CHECKSUM.pack(zlib.crc32(record)):
            return _checked(record, owner)
        time.sleep(0.001)
    return None


def _checked(record: bytes, owner: int) -> State | None:
    """The state, if its process lives and the file is that process's own."""
    magic, pid, start, module, percent, used, capacity, command = _RECORD.unpack(record)
    try:
        if magic != _MAGIC or start != _start_of(pid) or os.stat(f"/proc/{pid}").st_uid != owner:
            return None
    except OSError:
        return None
    # Another user's process may have written anything: nothing that moves a terminal's cursor gets through.
    name = "".join(c if c.isprintable() else "?" for c in command.rstrip(b"\0").decode(errors="replace"))
    return State(pid, module, min(percent, 100), used, capacity, name)


def _start_of(pid: int) -> int:
    """When the process began, in ticks since the machine did. OSError if there is none."""
    text = Path(f"/proc/{pid}/stat").read_bytes()
    return int(text[text.rindex(b")") + 2 :].split()[19])
