"""setuptools' build backend. It asks for PyTorch only where the environment that is installed into has none.

Else an isolated build would download the newest PyTorch, and build the core for that one.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403  # the hooks that stay as they are

TORCH = "torch>=2.13,<2.16"


def installed_torch() -> Path | None:
    """The folder of the PyTorch in the environment that runs pip, which an isolated build cannot import."""
    folders = [Path(sysconfig.get_path(name)) / "torch" for name in ("platlib", "purelib")]
    return next((folder for folder in folders if (folder / "version.py").is_file()), None)


def _torch() -> list[str]:
    return [] if installed_torch() else [TORCH]


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    return [*build_meta.get_requires_for_build_wheel(config_settings), *_torch()]


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    return [*build_meta.get_requires_for_build_editable(config_settings), *_torch()]
