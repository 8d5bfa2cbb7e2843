"""A recipe's folder is a symbolic link to a folder elsewhere. It must not be found."""

from tests.attacks import KEY, planted

GUARD = {"os.O_NOFOLLOW": 0}


def attack(folder):
    cache, recipe = planted(folder)
    recipe.rename(folder / "elsewhere")
    recipe.symlink_to(folder / "elsewhere")
    assert cache.find(KEY) is None
