"""The cache is a symbolic link to a folder elsewhere. Nothing of it must be used."""

import os

from tests.attacks import KEY, planted

GUARD = {"os.lstat": os.stat}


def attack(folder):
    cache, _ = planted(folder)
    cache.path.rename(folder / "elsewhere")
    cache.path.symlink_to(folder / "elsewhere")
    assert cache.find(KEY) is None
