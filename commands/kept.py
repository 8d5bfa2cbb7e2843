"""Results that survive the end of a command, in whatever way it ends: lines of JSON in `build/kept/NAME.jsonl`.

A command that is run again finds its results of the same fingerprint, and goes on from there.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from commands import BUILD

FOLDER = BUILD / "kept"


class KeptError(RuntimeError):
    """A result cannot be kept."""


def fingerprint(paths: Iterable[Path], **values: object) -> str:
    """A hash of files, and of those in folders, by their names and contents, and of values by their representation.

    A path that does not exist counts as such. Byte code is left out.
    """
    found = hashlib.sha256(repr(sorted(values.items())).encode())
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if "__pycache__" in file.parts or file.is_dir():
                continue
            found.update(f"\0{file}\0".encode())
            with contextlib.suppress(FileNotFoundError):
                found.update(hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()[:32]


def append(path: Path, line: bytes) -> None:
    """Add a line to a file, on the disk before this returns. OSError if that fails; the file is then as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        if size:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                line = b"\n" + line  # the line before was cut off
        try:
            if file.write(line) != len(line):
                raise OSError("the disk is full")
            os.fsync(file.fileno())
        except OSError:
            os.truncate(file.fileno(), size)
            raise


def replace(path: Path, content: bytes) -> None:
    """Write a file at once: where that fails (OSError), what was there stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    try:
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


class Kept:
    """The results of a command so far, by key. Results of another fingerprint are dropped.

    One process at a time may write; commands hold a lock for that (commands/budget.py).
    """

    def __init__(self, name: str, fingerprint: str, folder: Path = FOLDER) -> None:
        self.path = folder / f"{name}.jsonl"
        self.fingerprint = fingerprint
        self.results: dict[str, Any] = {}
        lines = self._lines()
        for line in lines:
            if line.get("fingerprint") == fingerprint and "key" in line:
                self.results[line["key"]] = line.get("result")
        if any(line.get("fingerprint") != fingerprint for line in lines):
            with contextlib.suppress(OSError):  # of a full disk: they only take room
                self._write_all()

    def add(self, key: str, result: Any) -> None:
        """Keep a result, JSON, on the disk before this returns. KeptError if the disk is full or cannot be written."""
        try:
            append(self.path, self._text(key, result))
        except OSError as error:
            raise KeptError(
                f"the result of {key!r} cannot be kept in {self.path}: {error.strerror or error}. The "
                f"{len(self.results)} results before it are there; make room and run the command again, which goes on"
            ) from error
        self.results[key] = json.loads(json.dumps(result))

    def forget(self, keys: Iterable[str] | None = None) -> None:
        """Drop results (None: all), which are then made anew."""
        for key in list(self.results) if keys is None else keys:
            self.results.pop(key, None)
        if self.path.exists():
            self._write_all()

    def _text(self, key: str, result: Any) -> bytes:
        return (json.dumps({"fingerprint": self.fingerprint, "key": key, "result": result}) + "\n").encode()

    def _lines(self) -> list[Mapping[str, Any]]:
        """Every complete line."""
        found: list[Mapping[str, Any]] = []
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            for line in self.path.read_bytes().split(b"\n"):
                with contextlib.suppress(ValueError):
                    if isinstance(value := json.loads(line), dict):
                        found.append(value)
        return found

    def _write_all(self) -> None:
        replace(self.path, b"".join(self._text(key, result) for key, result in self.results.items()))
