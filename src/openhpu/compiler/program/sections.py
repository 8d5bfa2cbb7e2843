"""Constant sections: the contents of recipes' constants as files, one for each content whichever recipes hold it.

With a folder set (`torch.hpu.enable_const_section_serialization`) constants go to the compile process as files instead
of as messages. A file has the digest of its content as its name, so that recipes of one model share it.
"""

import hashlib
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from openhpu.settings import folders

if TYPE_CHECKING:
    from openhpu.compiler.program.description import Description

SUFFIX = ".const_section"
_COMPRESSED = f".z{SUFFIX}"

_folder: Path | None = None
_compressed = False


def keep_in(folder: Path | None, compressed: bool = False) -> None:
    """Write sections into `folder` from now on; None: nowhere."""
    global _folder, _compressed
    _folder = folder and folder.absolute()
    _compressed = compressed


def as_files(description: "Description") -> "Description":
    """A `Description` with its constants as paths of their sections, which are there. Raises OSError."""
    if _folder is None or "constants" not in description:
        return description
    folder, compressed = _folder, _compressed
    files = {slot: _section(folder, content, compressed) for slot, content in description["constants"].items()}
    return {**description, "constants": files}


def _section(folder: Path, content: bytes | Path, compressed: bool) -> bytes | Path:
    if isinstance(content, Path):
        return content
    path = folder / f"{digest(content)}{_COMPRESSED if compressed else SUFFIX}"
    if not path.exists():
        with folders.replacing(path, "xb") as file:
            file.write(zlib.compress(content) if compressed else content)
    return path


def contents(section: bytes | Path) -> bytes:
    """The constant itself. Raises OSError where its file is gone."""
    if isinstance(section, bytes):
        return section
    data = section.read_bytes()
    return zlib.decompress(data) if section.name.endswith(_COMPRESSED) else data


def digest(section: bytes | Path) -> str:
    """The key of the constant."""
    return hashlib.sha256(section).hexdigest() if isinstance(section, bytes) else section.name.partition(".")[0]
