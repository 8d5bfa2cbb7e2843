"""A recording as it grows: a folder, which is packed into a zip at the end.

Each event is one line of JSON, written at once, so that what was recorded survives the end of the process. If the disk
is full, nothing more is recorded, and the script goes on.
"""

import contextlib
import json
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

import torch

from openhpu_record.errors import RecordError
from openhpu_record.tensors import NAMES, dtype_name, packed

FORMAT = 1  # of the newest recordings; what a reader of this version knows
EVENTS, MANIFEST, TENSORS = "events.jsonl", "manifest.json", "tensors"
MOST_BYTES = 200 << 20  # of a recording, before it is packed
_CHUNK = 256 << 10  # bytes of tensors that are written together


class Writer:
    """Writes events and tensors into a folder. `stopped` says why nothing more is written; it is empty before."""

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES, prefix: str = "") -> None:
        """Makes the folder. `prefix` of its files with tensors. Raises RecordError where it cannot be written."""
        self.stopped = ""
        self.bytes = 0
        self._most = most_bytes
        self._folder = folder
        self._prefix = prefix
        self._pending: dict[str, torch.Tensor] = {}
        self._waiting = 0
        self._chunk = 0
        try:
            (folder / TENSORS).mkdir(parents=True, exist_ok=True)
            self._events = open(folder / EVENTS, "ab", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise RecordError(f"{folder} can't be written: {error.strerror}") from None

    def manifest(self, **about: Any) -> None:
        """What the recording says of itself; the last call counts."""
        self._written(self._folder / MANIFEST, json.dumps({"format": FORMAT, **about}).encode())

    def event(self, kind: str, **about: Any) -> None:
        """One line."""
        if self.stopped:
            return
        line = json.dumps({"kind": kind, **about}, separators=(",", ":")).encode() + b"\n"
        try:
            written = self._events.write(line)
            if written is not None and written < len(line):
                raise OSError(28, "only a part of a line was written")
        except OSError as error:
            self._stop(f"the recording can't be written: {error.strerror}")
        self._count(len(line))

    def keep(self, name: str, tensor: torch.Tensor) -> dict[str, Any] | None:
        """Keep a tensor of the host. Returns where it is, or None if its dtype has no form or nothing is written."""
        if self.stopped or dtype_name(tensor.dtype) not in NAMES:
            return None
        place = {"chunk": f"{self._prefix}{self._chunk:04}", "name": name}
        self._pending[name] = tensor.detach().clone()
        self._waiting += tensor.numel() * tensor.element_size()
        if self._waiting > _CHUNK:
            self.flush()
        return place

    def flush(self) -> None:
        """Write the tensors that wait."""
        if not self._pending or self.stopped:
            return
        data = packed(self._pending)
        self._written(self._folder / TENSORS / f"{self._prefix}{self._chunk:04}.safetensors", data)
        self._count(len(data))
        self._pending = {}
        self._waiting = 0
        self._chunk += 1

    def close(self) -> None:
        """Write the rest."""
        self.flush()
        self._events.close()

    def _written(self, path: Path, data: bytes) -> None:
        try:
            path.write_bytes(data)
        except OSError as error:
            self._stop(f"{path.name} can't be written: {error.strerror}")

    def _count(self, size: int) -> None:
        self.bytes += size
        if self.bytes > self._most:
            self._stop(f"the recording has more than {self._most:,} bytes, as --most-bytes says")

    def _stop(self, why: str) -> None:
        if not self.stopped:
            self.stopped = why
            print(f"gaudi-record: {why}; nothing more is recorded, and the script goes on", file=sys.stderr)


def pack(folder: Path, target: Path, end: dict[str, Any]) -> Path:
    """Make a zip of a folder, which is removed then. `end`: how the process ended, for the manifest.

    A last line that was cut short is left out. Raises RecordError; the folder stays then.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        events = (folder / EVENTS).read_bytes()
    except (OSError, ValueError) as error:
        raise RecordError(f"{folder} holds no recording: {error}") from None
    chunks = sorted((folder / TENSORS).glob("*.safetensors"))
    partial = target.with_name(target.name + ".partial")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(MANIFEST, json.dumps({**manifest, "end": end}, indent=1))
            archive.writestr(EVENTS, events[: events.rfind(b"\n") + 1])
            for chunk in chunks:
                archive.write(chunk, f"{TENSORS}/{chunk.name}")
        os.replace(partial, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise RecordError(
            f"{target} can't be written: {error.strerror}; what was recorded is in {folder}, and "
            f"`gaudi-record pack {folder}` makes the file"
        ) from None
    for path in (folder / EVENTS, folder / MANIFEST, *chunks):
        path.unlink()
    (folder / TENSORS).rmdir()
    folder.rmdir()
    return target
