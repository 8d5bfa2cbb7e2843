"""A recipe's folder, or its library, is a symbolic link to one elsewhere. It must not be found."""

from tests.attacks import KEY, planted

GUARD = {"os.O_NOFOLLOW": 0}


def attack(folder):
    for name in ("library", "folder"):
        (folder / name).mkdir()
        cache, recipe = planted(folder / name)
        linked = recipe / "recipe.so" if name == "library" else recipe
        linked.rename(folder / name / "elsewhere")
        linked.symlink_to(folder / name / "elsewhere")
        assert cache.find(KEY) is None, name
