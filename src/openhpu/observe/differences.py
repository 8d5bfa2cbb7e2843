"""Where a Gaudi refuses or computes otherwise than this device: the one table, differences.toml.

Whether the device does as a Gaudi is decided here, for each row, by `as_gaudi`: OPENHPU_STRICT=gaudi says so. The rows
that the core decides have a `level` there. `note` is called where a script does such a thing. It raises the row's error
where the device does as a Gaudi. Otherwise it publishes the event `difference`, which `openhpu run` lists. `make docs`
puts the rows into `docs/differences.md`. The tests run an example of each row at both levels.
"""

import re
from typing import TYPE_CHECKING, NamedTuple

from openhpu import settings
from openhpu.observe import events
from openhpu.settings import tables

if TYPE_CHECKING:
    from openhpu import _C


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


def as_gaudi(kind: str) -> bool:
    """Whether the device does as a Gaudi in what the row `kind` is about. KeyError for another name."""
    if kind not in BY_KIND:
        raise KeyError(f"there is no difference {kind!r}; there are {', '.join(BY_KIND)}")
    return settings.is_strict()


def level(kind: str, permitted: bool | None = None) -> "_C.Level":
    """The level of a row for the core. `permitted`: what a variable says that the script has set; it counts more."""
    from openhpu import _C

    if permitted:
        return _C.Level.PASS
    return _C.Level.AS_GAUDI if permitted is False or as_gaudi(kind) else _C.Level.NOTE


def note(kind: str, detail: str = "") -> None:
    """The script does what the row `kind` is about.

    RuntimeError where the device does as a Gaudi and the row has a message; else an event with the script's line.
    """
    if as_gaudi(kind):
        if message := BY_KIND[kind].message:
            raise RuntimeError(message)
    elif events.wanted("difference"):
        from openhpu import _C

        events.publish("difference", {"kind": kind, "detail": detail}, _C.current_site())
