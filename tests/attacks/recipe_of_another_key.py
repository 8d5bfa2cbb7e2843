"""A recipe of another graph has this graph's name. It must not be found."""

import dataclasses
from unittest.mock import ANY

from openhpu.compiler.client.manifest import Manifest
from tests.attacks import KEYS, planted

read = Manifest.from_json
GUARD = {"openhpu.compiler.client.manifest.Manifest.from_json": lambda text: dataclasses.replace(read(text), key=ANY)}


def attack(folder):
    cache, recipe = planted(folder)
    recipe.rename(cache.path / KEYS[1])
    assert cache.find(KEYS[1]) is None
