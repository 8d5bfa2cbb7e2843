"""The user's folder, in which caches, logs and configurations lie unless a setting names another place; and the one
place that opens files there.

Another user may have put something in a folder that several use: a link, a pipe, a file that changes what a process
does. So no file is written through a link, nothing that is not a regular file is opened, and a configuration counts if
it belongs to this user or to the superuser.
"""

import contextlib
import errno
import json
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

_told: set[str] = set()


def home() -> Path:
    """The user's home. Of a user without one, as in a container that knows its users by number only: a folder of its
    own among the temporary files, which may not exist yet."""
    try:
        return Path.home()
    except RuntimeError:  # neither HOME nor an entry in passwd
        return Path(tempfile.gettempdir()) / f"openhpu-{os.getuid()}"


def user_cache() -> Path:
    """The user's folder for files that can be made again."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else home() / ".cache") / "openhpu"


def opened(path: Path, flags: int) -> int:
    """A descriptor of the regular file `path`. Raises OSError for a device, and a pipe, at which it would wait."""
    file = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise OSError(errno.EINVAL, "it is not a regular file", str(path))


@contextlib.contextmanager
def replacing(path: Path, mode: str = "x") -> Iterator[IO[Any]]:
    """A file that takes the place of the regular file `path`, if there is one, when the block ends well. Its folder is
    made. `mode` is "x" for text, "xb" for bytes. Raises OSError with the path, and leaves nothing of it then."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise OSError(errno.EINVAL, "what is there is not a regular file")
        part.unlink(missing_ok=True)  # of a dead process
        with part.open(mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
        part.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


def read_object(path: Path, most: int = 1 << 20) -> dict[str, Any]:
    """The JSON object in a file of at most `most` bytes that belongs to this user or to the superuser. Raises OSError
    and ValueError."""
    with open(opened(path, os.O_RDONLY), "rb") as file:
        owner = os.fstat(file.fileno()).st_uid
        text = file.read(most + 1)
    if owner not in (0, os.geteuid()):
        raise ValueError(f"it belongs to user {owner}")
    if len(text) > most:
        raise ValueError(f"it is longer than {most:,} bytes")
    return parsed(text)


def parsed(text: str | bytes) -> dict[str, Any]:
    """The JSON object in a text. Raises ValueError."""
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    return found


def tell(what: str, error: OSError, remedy: str = "") -> None:
    """Say, once for each file, that `what` cannot be written. The script goes on."""
    text = f"openhpu: {what} cannot be written: {error}{remedy}"
    if text not in _told:
        _told.add(text)
        print(text, file=sys.stderr)
