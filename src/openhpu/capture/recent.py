"""A cache of what was used last."""

import math
from collections import OrderedDict
from collections.abc import Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(OrderedDict[K, V]):
    """The `most` entries that were used last."""

    def __init__(self, most: float = math.inf) -> None:  # a copy is made without arguments, and gets `most` then
        super().__init__()
        self.most = most

    def use(self, key: K) -> V | None:
        """The entry, which now is the one that was used last; None if there is none."""
        try:
            self.move_to_end(key)
            return self[key]
        except KeyError:  # another thread may have dropped it just now
            return None

    def add(self, key: K, value: V) -> None:
        """Adds an entry, or replaces it, and drops the one that has been unused for longest if there are too many."""
        self[key] = value
        self.move_to_end(key)
        if len(self) > self.most:
            self.popitem(last=False)
