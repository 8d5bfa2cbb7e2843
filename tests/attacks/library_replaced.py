"""A recipe's library is another one than its manifest says. It must not be found."""

import hashlib
from types import SimpleNamespace
from unittest.mock import ANY

from tests.attacks import KEY, planted


def any_digest(content):
    return SimpleNamespace(hexdigest=lambda: ANY)


GUARD = {"openhpu.compiler.client.disk_cache.hashlib": SimpleNamespace(**{**vars(hashlib), "sha256": any_digest})}


def attack(folder):
    cache, recipe = planted(folder)
    (recipe / "recipe.so").write_bytes(b"\x7fELF")
    assert cache.find(KEY) is None
