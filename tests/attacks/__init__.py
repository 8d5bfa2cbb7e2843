"""What another user of the machine, or a broken file, may do to a process: each file is one attack.

The docstring says what the file tries and what must happen. `attack(folder)` raises an AssertionError where that does
not happen. `GUARD` names what refuses it, by its path in Python, with something that lets it through: without the guard
the attack must succeed. `python -m tests.attacks NAME` runs one; tests/python/tests/test_attacks.py runs all.
"""

import os
from pathlib import Path

from openhpu.compiler.client.disk_cache import DiskCache
from tests.python.openhpu.compiler.client.test_disk_cache import KEYS, recipe

KEY = KEYS[0]
STRANGER = 12345


def planted(folder: Path) -> tuple[DiskCache, Path]:
    """A cache with a recipe in which all is as it should be, and the recipe's folder."""
    cache = DiskCache(folder / "recipes", warn=print)
    cache.path.mkdir(mode=0o700)
    recipe(cache.path)
    assert cache.find(KEY)
    return DiskCache(cache.path, warn=print), cache.path / KEY


def give_away(*paths: Path) -> None:
    """Let them belong to another user. Ends the process where only the superuser may do that."""
    if os.getuid() != 0:
        print("skipped: only the superuser gives files away", flush=True)
        os._exit(0)
    for path in paths:
        os.chown(path, STRANGER, STRANGER)
