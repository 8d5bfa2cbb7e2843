"""Another user puts a recipe with a right manifest into the cache. It must not be found."""

from tests.attacks import KEY, give_away, planted

GUARD = {"openhpu.compiler.client.disk_cache._check_owner": lambda found: None}


def attack(folder):
    cache, recipe = planted(folder)
    give_away(recipe, *recipe.iterdir())
    assert cache.find(KEY) is None
