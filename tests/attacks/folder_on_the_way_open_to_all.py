"""Others can rename the cache and put theirs in its place. Nothing of it must be used."""

from tests.attacks import KEY, planted

GUARD = {"openhpu.compiler.client.disk_cache._others_may_write": lambda found: False}


def attack(folder):
    cache, _ = planted(folder)
    folder.chmod(0o777)
    assert cache.find(KEY) is None
