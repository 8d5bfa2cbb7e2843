"""Where a Gaudi refuses or computes otherwise than this device: the one table, differences.tsv.

`note` is called where a script does such a thing. With OPENHPU_STRICT=gaudi it raises the row's error. Otherwise it
publishes the event `kindness`, which `openhpu run` lists. `make docs` puts the rows into `docs/differences.md`. The
tests run an example of each row at both levels.
"""

from typing import NamedTuple

from openhpu import settings
from openhpu.observe import events


class Difference(NamedTuple):
    """One row.

    `kind`: its name in events and reports. `what` a script does; `gaudi`: what happens there; `here`: what happens
    here, and with OPENHPU_STRICT=gaudi (`strict`). `source`: where that is known from. `needs`: what the script needs
    there; a variable and its value let it run at both levels. `error`: a pattern of the strict error, or "" where there
    is none. `event`: the event that reports it.
    """

    kind: str
    what: str
    gaudi: str
    here: str
    strict: str
    source: str
    needs: str
    error: str
    event: str


DIFFERENCES = tuple(Difference(*row) for row in settings.table.rows_beside(__file__, "differences.tsv")[1:])

BY_KIND = {row.kind: row for row in DIFFERENCES}


def note(kind: str, detail: str = "") -> None:
    """The script does what a Gaudi refuses: RuntimeError with OPENHPU_STRICT=gaudi, else an event with its line."""
    if settings.is_strict():
        if error := BY_KIND[kind].error:
            raise RuntimeError(error)
    elif events.wanted("kindness"):
        from openhpu import _C

        events.publish("kindness", {"kind": kind, "detail": detail}, _C.current_site())
