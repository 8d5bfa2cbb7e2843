"""A cache keeps what was used last."""

import copy

from openhpu.capture.recent import Recent


def test_what_was_unused_for_longest_is_dropped():
    cache = Recent(2)
    cache.add("a", 1)
    cache.add("b", 2)
    assert cache.use("a") == 1
    cache.add("c", 3)
    assert list(cache) == ["a", "c"]
    assert cache.use("b") is None
    cache.add("a", 4)  # replaces, and drops nothing
    assert dict(cache) == {"c": 3, "a": 4}
    assert list(cache)[-1] == "a"


def test_a_copy_has_the_same_limit():
    cache = Recent(1)
    cache.add("a", 1)
    copied = copy.deepcopy(cache)
    copied.add("b", 2)
    assert list(copied) == ["b"]
    assert list(cache) == ["a"]
