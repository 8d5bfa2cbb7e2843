"""Recipes on disk: a folder with a subfolder for each recipe, shared by all processes of a user.

A recipe is machine code that this process will run. So the cache refuses every file that another user could have
written, and compares every file with its manifest. A cache that cannot be used costs a warning, never an error.
"""

import contextlib
import fcntl
import grp
import hashlib
import json
import os
import pwd
import re
import shutil
import stat
import struct
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from openhpu.compiler.client.identity import recipe_key
from openhpu.compiler.client.manifest import MANIFEST, PROGRAM, Manifest, misfit
from openhpu.compiler.program.description import Description, with_constants
from openhpu.settings.folders import user_cache

DEFAULT_MAX_BYTES = 1024 * 2**20

_RECIPE = re.compile(r"[0-9a-f]{64}")
_ENTRY = re.compile(r"[0-9a-f]{64}(\.constants)?")
_TEMPORARY = re.compile(r"\.(adopted|removed|building|replaced)-.*")
_STALE_S = 3600  # a temporary folder of that age belongs to a process that died
_LOCK_S = 120  # a process that has held a lock for so long hangs, or compiles at the lowest priority
_LOCK = ".lock"
_MOST_LINKS = 40  # on the way to a folder, as Linux has it
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class _Refused(Exception):
    """The files on disk are not trusted; the text has the reason."""


def default_path() -> Path:
    """The default folder of recipes."""
    return user_cache() / "recipes"


def own_folder(path: Path) -> bool:
    """Whether `path` is a folder, made if it was not there, into which only this process's user writes."""
    try:
        return _is_own(path, create=True) and os.access(path, os.W_OK)
    except (OSError, _Refused):
        return False


def _is_own(path: Path, create: bool) -> bool:
    """Whether the folder is there, or was made. Raises _Refused where others might write into it, or put another in its
    place, and OSError."""
    _check_way(path.parent)
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        if not create:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        _check_way(path.parent)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode):
        raise _Refused("it is a symbolic link" if stat.S_ISLNK(found.st_mode) else "it is not a folder")
    _check_owner(found)
    return True


def _check_way(path: Path, links: int = _MOST_LINKS) -> None:
    """Raises _Refused unless each folder on the way to `path`, links resolved, is one in which only this process's user
    and the superuser rename things: it is theirs, and not writable by others unless sticky, as /tmp is. What is
    missing ends the way."""
    trusted = {0, os.geteuid(), _unmapped_user()}
    for here in (*reversed(path.absolute().parents), path):
        try:
            found = os.lstat(here)
        except FileNotFoundError:
            return
        if stat.S_ISLNK(found.st_mode):
            if not links:
                raise _Refused(f"{path} has too many symbolic links on the way to it")
            if found.st_uid not in trusted:
                raise _Refused(f"the link {here}, on the way to it, belongs to user {found.st_uid}")
            _check_way(here.parent / os.readlink(here), links - 1)
            continue
        if not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(f"{here} is not a folder")
        if found.st_uid not in trusted:
            raise _Refused(f"{here}, on the way to it, belongs to user {found.st_uid}, who could replace it")
        if _others_may_write(found) and not found.st_mode & stat.S_ISVTX:
            raise _Refused(f"others may write to {here}, on the way to it, and could replace it: chmod go-w {here}")


def _others_may_write(found: os.stat_result) -> bool:
    """Whether others than the owner and the superuser may; a group with nobody else in it is its user's own."""
    if found.st_mode & stat.S_IWOTH:
        return True
    if not found.st_mode & stat.S_IWGRP or found.st_gid == 0:
        return False
    try:
        user = pwd.getpwuid(os.geteuid())
        group = grp.getgrgid(found.st_gid)
    except KeyError:
        return True
    return not (group.gr_name == user.pw_name and group.gr_gid == user.pw_gid and set(group.gr_mem) <= {user.pw_name})


def _unmapped_user() -> int:
    """The user to whom the system attributes files of users that a container lacks. It may own the root folder."""
    root = os.lstat("/").st_uid
    try:
        return root if root == int(Path("/proc/sys/kernel/overflowuid").read_text()) else 0
    except (OSError, ValueError):
        return 0


def parse_config(text: str) -> tuple[Path, int, bool]:
    """The arguments of `DiskCache` from `path[,delete_on_init[,max_MB]]`, the form of PT_HPU_RECIPE_CACHE_CONFIG. A
    part left empty has its default: the user's cache folder, 1024, false. Raises ValueError."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 3:
        raise ValueError(f"{text!r}: expected path,delete_on_init,max_MB, found {len(parts)} parts")
    path, delete, size = parts + [""] * (3 - len(parts))
    truth = {"": False, "false": False, "0": False, "true": True, "1": True}.get(delete.lower())
    if truth is None:
        raise ValueError(f"{text!r}: delete_on_init is {delete!r}, expected true or false")
    if size and not (size.isascii() and size.isdigit() and int(size)):
        raise ValueError(f"{text!r}: max_MB is {size!r}, expected a positive whole number")
    where = Path(os.path.abspath(os.path.expanduser(path))) if path else default_path()
    return where, int(size) * 2**20 if size else DEFAULT_MAX_BYTES, truth


class DiskCache:
    """The recipes in `path`, at most `max_bytes` of them (None: no limit), the least recently used go first.

    `path` is made if it does not exist, for its owner only. A folder that is a symbolic link, somebody else's, or
    writable by others is not used, nor one that others could replace, as they may write to a folder on the way to it.
    `delete_on_init` removes all recipes, and nothing else. `warn` gets what a person should know; by default it becomes
    a RuntimeWarning. For one thread at a time.
    """

    def __init__(
        self,
        path: Path,
        max_bytes: int | None = DEFAULT_MAX_BYTES,
        delete_on_init: bool = False,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self.path = Path(path)
        self.max_bytes = max_bytes
        self.warn = warn or (lambda message: warnings.warn(message, RuntimeWarning, stacklevel=3))
        self._warned: set[str] = set()
        if delete_on_init and self._usable():
            for entry in self._entries():
                self._remove(entry)

    def find(self, key: str) -> tuple[Manifest, Path] | None:
        """The recipe with that key and its folder, every file of it verified."""
        folder = self.path / key
        if not self._usable(create=False) or f"{key} refused" in self._warned:
            return None
        try:
            manifest = _verified(folder, key)
        except _Refused as error:
            self.refuse(key, str(error))
            return None
        except OSError as error:
            self._warn_once("find", f"the recipe cache {self.path} can't be read: {error}")
            return None
        return (manifest, folder) if manifest else None

    def has_recipes(self) -> bool:
        """Whether there is any, of whatever graph."""
        with contextlib.suppress(OSError):
            return self._usable(create=False) and any(_RECIPE.fullmatch(name) for name in os.listdir(self.path))
        return False

    def refuse(self, key: str, reason: str) -> None:
        """Not to be offered again."""
        self._warn_once(f"{key} refused", f"the cached recipe {self.path / key} is not used: {reason}")
        self._remove(self.path / key)

    def adopt(self, folder: Path, key: str) -> Path | None:
        """Copy a recipe's folder into the cache, evicting others if it gets too large. The new folder; None if there
        is no room on the disk, or the disk is read-only."""
        if not self._usable():
            return None
        try:
            with temporary_folder(".adopted-", self.path) as new:
                for file in folder.iterdir():
                    shutil.copyfile(file, new / file.name)
                    (new / file.name).chmod(0o600)
                publish(new, self.path / key)
            self._evict(keep=key)
        except OSError as error:
            self._warn_once("adopt", f"recipes can't be kept in the recipe cache {self.path}: {error}")
            return None
        self._warned.discard(f"{key} refused")
        return self.path / key

    def constants(self, key: str) -> tuple[int, ...]:
        """The numbers of the graph `key` that have to be constants, as far as known: see `remember_constants`."""
        path = self.path / f"{key}.constants"
        if not self._usable(create=False):
            return ()
        try:
            indices = json.loads(_contents(None, path))
            with contextlib.suppress(OSError):
                os.utime(path)
            if isinstance(indices, list) and all(type(index) is int and index >= 0 for index in indices):
                return tuple(indices)
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, RecursionError, _Refused):
            pass
        self._remove(path)
        return ()

    def remember_constants(self, key: str, indices: Sequence[int]) -> None:
        """The graph `key` cannot be compiled with these numbers as variables: the recipe is that of another key."""
        if not self._usable():
            return
        with contextlib.suppress(OSError), temporary_folder(".adopted-", self.path) as new:
            (file := new / "constants").write_text(json.dumps(sorted(indices)))
            file.chmod(0o600)
            file.replace(self.path / f"{key}.constants")

    @contextlib.contextmanager
    def lock(self, key: str) -> Iterator[None]:
        """Held by the one process of all that makes this recipe; a process that dies lets go, and one that has not for
        `_LOCK_S` is waited for no longer. Where files cannot be locked, nobody waits."""
        with contextlib.ExitStack() as stack:
            if self._usable():
                with contextlib.suppress(OSError):
                    # One file, with a byte for each key: no process can know when a lock's file may be removed.
                    handle = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
                    stack.callback(os.close, handle)
                    _lock_patiently(handle, int(key[-15:], 16))
            yield

    def _usable(self, create: bool = True) -> bool:
        try:
            return _is_own(self.path, create)
        except (OSError, _Refused) as error:
            self._warn_once("usable", f"the recipe cache {self.path} is not used: {error}")
            return False

    def _warn_once(self, what: str, message: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            self.warn(message)

    def _entries(self) -> list[Path]:
        """All files of this cache. Files that a dead process left are removed."""
        found = []
        with contextlib.suppress(OSError):
            for path in self.path.iterdir():
                if _ENTRY.fullmatch(path.name):
                    found.append(path)
                elif _TEMPORARY.fullmatch(path.name):
                    with contextlib.suppress(OSError):
                        if time.time() - path.lstat().st_mtime > _STALE_S:
                            shutil.rmtree(path, ignore_errors=True)
        return found

    def _evict(self, keep: str) -> None:
        if self.max_bytes is None:
            return
        used = []
        for path in self._entries():
            with contextlib.suppress(OSError):  # another process may evict, too
                if path.is_dir():
                    size = sum(file.lstat().st_size for file in path.iterdir())
                    used.append(((path / MANIFEST).lstat().st_mtime_ns, size, path))
                else:
                    used.append((path.lstat().st_mtime_ns, path.lstat().st_size, path))
        total = sum(size for _, size, _ in used)
        for _, size, path in sorted(used):
            if total <= self.max_bytes:
                break
            if path.name != keep:
                self._remove(path)
                total -= size

    def _remove(self, path: Path) -> None:
        """At once for others, and as far as possible."""
        with contextlib.suppress(OSError), temporary_folder(".removed-", self.path) as aside:
            os.rename(path, aside / path.name)


def find(caches: Sequence[DiskCache], description: Description, key: str) -> tuple[Manifest, Path] | None:
    """The recipe of a graph with this key: as described, or with some of its numbers as constants."""
    for cache in caches:
        keys = [key]
        if (constants := cache.constants(key)) and constants[-1] < len(description["scalars"]):
            keys.append(recipe_key(with_constants(description, constants)))
        for each in keys:
            if found := cache.find(each):
                wrong = misfit(found[0], description)
                if not wrong:
                    return found
                cache.refuse(each, wrong)
    return None


def _lock_patiently(handle: int, byte: int) -> None:
    """Lock one byte of a file, which need not have so many, until the handle is closed."""
    lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)  # struct flock of 64-bit Linux
    end = time.monotonic() + _LOCK_S
    while True:
        try:
            fcntl.fcntl(handle, fcntl.F_OFD_SETLK, lock)
            return
        except (BlockingIOError, PermissionError):
            if time.monotonic() >= end:
                return
            time.sleep(0.02)


def sha256(path: Path) -> str:
    """The file's digest, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def temporary_folder(prefix: str, where: Path) -> Iterator[Path]:
    """A new folder there, which is removed at the end as far as possible, if it is still there under its name."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=where))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def publish(work: Path, target: Path) -> None:
    """Rename a complete folder, after making way: a folder that has contents cannot be replaced in one step."""
    try:
        os.rename(work, target)
    except OSError:
        if not target.is_dir():
            raise
        with temporary_folder(".replaced-", target.parent) as aside:
            with contextlib.suppress(FileNotFoundError):
                os.rename(target, aside / "old")
            os.rename(work, target)


def _verified(folder: Path, key: str) -> Manifest | None:
    """The manifest of a recipe, if all its files agree with it; None if there is no such recipe. Raises _Refused.

    All is read through one handle: the folder may be replaced meanwhile.
    """
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except NotADirectoryError as error:  # also for a symbolic link
        raise _Refused("it is not a folder") from error
    try:
        _check_owner(os.fstat(handle))
        manifest = Manifest.from_json(_contents(handle, MANIFEST).decode())
        if manifest.key != key or not {*manifest.libraries(), PROGRAM} <= manifest.files.keys():
            raise _Refused("its manifest is another's")
        if {*manifest.files, MANIFEST} != set(os.listdir(handle)):
            raise _Refused("files are missing or foreign")
        for name, digest in manifest.files.items():
            if hashlib.sha256(_contents(handle, name)).hexdigest() != digest:
                raise _Refused(f"{name} has changed since it was compiled")
        with contextlib.suppress(OSError):
            os.utime(MANIFEST, dir_fd=handle)  # used just now
        return manifest
    except ValueError as error:
        raise _Refused(str(error)) from error
    except FileNotFoundError as error:
        with contextlib.suppress(OSError):
            if os.path.samestat(os.lstat(folder), os.fstat(handle)):
                raise _Refused(f"{error.filename} is missing") from error
        return None  # removed by another process
    finally:
        os.close(handle)


def _contents(folder: int | None, name: str | Path) -> bytes:
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _Refused(f"{name}: {error.strerror}") from error
    with open(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise _Refused(f"{name} is not a file")
        _check_owner(found)
        return file.read()


def _check_owner(found: os.stat_result) -> None:
    if found.st_uid != os.geteuid():
        raise _Refused(f"it belongs to user {found.st_uid}")
    if found.st_mode & _WRITABLE_BY_OTHERS:
        raise _Refused("others may write there")
