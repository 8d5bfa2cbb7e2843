"""Where a Gaudi refuses or computes otherwise than this device: the one table, differences.toml.

`note` is called where a script does such a thing. With OPENHPU_STRICT=gaudi it raises the row's error. Otherwise it
publishes the event `kindness`, which `openhpu run` lists. `make docs` puts the rows into `docs/differences.md`. The
tests run an example of each row at both levels.
"""

import re
from typing import NamedTuple

from openhpu import settings
from openhpu.observe import events
from openhpu.settings import tables


class Difference(NamedTuple):
    """One row.

    `kind`: its name in events and reports. `what` a script does; `gaudi`: what happens there; `here`: what happens
    here, and with OPENHPU_STRICT=gaudi (`strict`). `source`: where that is known from. `needs`: what the script needs
    there; a variable and its value let it run at both levels. `message`: the strict error, where `note` raises it;
    `pattern`: a regular expression of it, where something else does. `event`: the event that reports it.
    """

    kind: str
    what: str
    gaudi: str
    here: str
    strict: str
    source: str
    needs: str
    message: str = ""
    pattern: str = ""
    event: str = ""

    @property
    def error(self) -> str:
        """A regular expression that finds the strict error; "" where there is none."""
        return self.pattern or re.escape(self.message)


DIFFERENCES = tables.beside(__file__, "differences.toml", Difference).rows

BY_KIND = {row.kind: row for row in DIFFERENCES}


def note(kind: str, detail: str = "") -> None:
    """The script does what a Gaudi refuses: RuntimeError with OPENHPU_STRICT=gaudi, else an event with its line."""
    if settings.is_strict():
        if message := BY_KIND[kind].message:
            raise RuntimeError(message)
    elif events.wanted("kindness"):
        from openhpu import _C

        events.publish("kindness", {"kind": kind, "detail": detail}, _C.current_site())
