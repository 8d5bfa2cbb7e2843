"""The module `openhpu.interface.hpu` under the name that scripts import: this one replaces itself by it."""

from typing import TYPE_CHECKING

from openhpu.interface import hpu as _hpu
from openhpu.interface.names import stand_in

if TYPE_CHECKING:
    from openhpu.interface.hpu import *  # noqa: F403

stand_in(_hpu, __name__)
