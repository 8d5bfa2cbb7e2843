"""A recipe's library is a symbolic link to a file elsewhere. It must not be found."""

from tests.attacks import KEY, planted

GUARD = {"os.O_NOFOLLOW": 0}


def attack(folder):
    cache, recipe = planted(folder)
    (recipe / "recipe.so").rename(folder / "elsewhere")
    (recipe / "recipe.so").symlink_to(folder / "elsewhere")
    assert cache.find(KEY) is None
