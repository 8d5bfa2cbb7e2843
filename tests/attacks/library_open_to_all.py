"""A recipe's library can be written by others. It must not be found."""

from tests.attacks import KEY, planted

GUARD = {"openhpu.compiler.client.disk_cache._WRITABLE_BY_OTHERS": 0}


def attack(folder):
    cache, recipe = planted(folder)
    (recipe / "recipe.so").chmod(0o666)
    assert cache.find(KEY) is None
