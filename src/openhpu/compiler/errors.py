"""Errors of the compiler."""

from collections.abc import Iterable


class CannotCompile(Exception):
    """A graph that has no recipe. It still runs node by node.

    `op` is the operator at fault ("aten::sort", "" if none is), `scalars` the indices of the variable numbers without
    which the graph could be compiled: as constants they may work.
    """

    def __init__(self, reason: str, op: str = "", scalars: Iterable[int] = ()) -> None:
        super().__init__(f"{op}: {reason}" if op else reason)
        self.op = op
        self.scalars = tuple(scalars)
