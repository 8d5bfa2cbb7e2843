"""The user's folder, in which caches, logs and configurations lie unless a setting names another place."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def home() -> Path:
    """The user's home. Of a user without one, as in a container that knows its users by number only: a folder of its
    own among the temporary files, which may not exist yet."""
    try:
        return Path.home()
    except RuntimeError:  # neither HOME nor an entry in passwd
        return Path(tempfile.gettempdir()) / f"openhpu-{os.getuid()}"
