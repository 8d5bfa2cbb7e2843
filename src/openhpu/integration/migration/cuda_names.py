"""The table of CUDA names and their counterparts on hpu. It is data for other tools, too."""

from pathlib import Path
from typing import Literal, NamedTuple

from openhpu.settings import tables

TABLE = Path(__file__).parents[1] / "data" / "cuda-names.tsv"
PAGE = "docs/migration.md"

How = Literal["same", "changed", "ignored", "refused"]
# What is installed under the name: the counterpart; PyTorch's own function with cuda in its arguments taken as hpu; a
# function that returns the counterpart, or that value itself; a module with the names of the counterpart; what `own`
# has; what a function of `own` makes after the import of the module that has the name; by the core or a registry of
# PyTorch's; nothing.
Install = Literal["object", "arguments", "value", "constant", "module", "own", "later", "core", "none"]


class CudaName(NamedTuple):
    """A CUDA name.

    `how`: same: the counterpart does the same. changed: it does something else, which `result` states. ignored: it can
    be used, and has no effect. refused: an error, with `result` as the reason. `counterpart`: a name, or the value that
    an ignored one returns. `source`: which interface the name belongs to, a table of docs/migration.md.
    """

    name: str
    how: How
    install: Install
    source: str
    counterpart: str = ""  # none of most that are refused
    result: str = ""


def refusal(row: CudaName) -> str:
    """The error of a name that hpu does not have."""
    return f"{row.name} has no counterpart on hpu: {row.result}. See {PAGE}"


ROWS: dict[str, CudaName] = {row.name: row for row in tables.read(TABLE, CudaName, unique="name")}
