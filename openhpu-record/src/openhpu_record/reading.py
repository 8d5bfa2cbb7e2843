"""Reads a recording: its manifest, its events and the tensors that it keeps."""

import json
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from openhpu_record.errors import RecordError
from openhpu_record.tensors import unpacked
from openhpu_record.writing import EVENTS, FORMAT, MANIFEST, TENSORS

_MOST_BYTES = 2 << 30  # of one file in a recording, unpacked
_CHUNKS = 4  # that stay in memory


class Recording:
    """A zip of `gaudi-record`. Raises RecordError for a file that is none, is truncated, or is of a newer format."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._chunks: dict[str, dict[str, torch.Tensor]] = {}
        try:
            self._archive = zipfile.ZipFile(self.path)
        except FileNotFoundError:
            raise RecordError(f"there is no recording {str(path)!r}") from None
        except (zipfile.BadZipFile, OSError) as error:
            raise RecordError(f"{path} is not a recording, or it is truncated: {error}") from None
        self.manifest = self._json(MANIFEST)
        found = self.manifest.get("format")
        if not isinstance(found, int) or found < 1:
            raise RecordError(f"{path}: the manifest names no format")
        if found > FORMAT:
            raise RecordError(
                f"{path} has the format {found}; this version reads {FORMAT}: install a newer openhpu-record"
            )

    def close(self) -> None:
        self._archive.close()

    def __enter__(self) -> "Recording":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def events(self, *kinds: str) -> Iterator[dict[str, Any]]:
        """The events of these kinds, in their order. Kinds that this version does not know are passed over."""
        return (event for event in self.all_events() if event["kind"] in kinds)

    def all_events(self) -> Iterator[dict[str, Any]]:
        """All events, in their order. Raises RecordError for a line that is none."""
        for number, line in enumerate(self._bytes(EVENTS).splitlines(), 1):
            try:
                event = json.loads(line)
                event["kind"]
            except (ValueError, KeyError, TypeError):
                raise RecordError(f"{self.path}: line {number} of {EVENTS} is not an event") from None
            yield event

    def tensors(self) -> int:
        """How many tensors it keeps."""
        names = [name for name in self._archive.namelist() if name.startswith(f"{TENSORS}/")]
        return sum(len(unpacked(self._bytes(name), name)) for name in names)

    def kept(self, place: dict[str, Any]) -> torch.Tensor:
        """A tensor that the recording keeps. Raises RecordError if it is not there."""
        chunk = place["chunk"]
        if chunk not in self._chunks:
            name = f"{TENSORS}/{chunk}.safetensors"
            found = unpacked(self._bytes(name), f"{self.path}: {name}")
            while len(self._chunks) >= _CHUNKS:
                del self._chunks[next(iter(self._chunks))]
            self._chunks[chunk] = found
        if place["name"] not in self._chunks[chunk]:
            raise RecordError(f"{self.path}: the tensor {place['name']!r} is missing")
        return self._chunks[chunk][place["name"]]

    def _json(self, name: str) -> dict[str, Any]:
        try:
            found = json.loads(self._bytes(name))
        except ValueError as error:
            raise RecordError(f"{self.path}: {name} is not JSON: {error}") from None
        if not isinstance(found, dict):
            raise RecordError(f"{self.path}: {name} is not an object")
        return found

    def _bytes(self, name: str) -> bytes:
        try:
            if self._archive.getinfo(name).file_size > _MOST_BYTES:
                raise RecordError(f"{self.path}: {name} has more than {_MOST_BYTES:,} bytes")
            return self._archive.read(name)
        except KeyError:
            raise RecordError(f"{self.path}: {name} is missing") from None
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError) as error:
            raise RecordError(f"{self.path}: {name} can't be read: {error}") from None
