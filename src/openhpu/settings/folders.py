"""Folders: the user's, in which caches, logs and configurations lie unless a setting names another place; that of the
compiled cores."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

CORES = Path(__file__).parents[1] / "cores"  # a folder for each release of PyTorch, with a core for each Python


def home() -> Path:
    """The user's home. Of a user without one, as in a container that knows its users by number only: a folder of its
    own among the temporary files, which may not exist yet."""
    try:
        return Path.home()
    except RuntimeError:  # neither HOME nor an entry in passwd
        return Path(tempfile.gettempdir()) / f"openhpu-{os.getuid()}"


def release(version: str) -> str:
    """The part of a PyTorch version that a core belongs to: "2.13" of "2.13.0+cpu"."""
    return ".".join(version.split("+")[0].split(".")[:2])
