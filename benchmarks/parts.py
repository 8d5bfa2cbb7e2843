"""Parts of a benchmark: each is kept when it is done, so that a run that was ended goes on from there."""

import base64
import pickle
from collections.abc import Callable
from typing import Any, TypeVar

from commands.kept import Kept

MARK = "=== "  # before the name of a part, on the line that says that it begins
WHOLE = "the whole"  # the part that has the tables

_T = TypeVar("_T")
kept: Kept | None = None  # where parts of this process's benchmark are kept


def part(name: str, measure: Callable[..., _T], *arguments: Any) -> _T:
    """What `measure` gives for the arguments, or what it gave in an earlier run that was ended."""
    if kept and name in kept.results:
        return read(kept.results[name])  # type: ignore[no-any-return]
    print(f"{MARK}{name}", flush=True)
    found = measure(*arguments)
    if kept:
        kept.add(name, base64.b64encode(pickle.dumps(found)).decode())
    return found


def read(result: str) -> Any:
    """A part, from what was kept of it."""
    return pickle.loads(base64.b64decode(result))
