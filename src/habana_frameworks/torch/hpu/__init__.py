"""The module object of `torch.hpu` under Gaudi's name: this module replaces itself by it."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from openhpu.interface import hpu as _hpu
from openhpu.interface.names import stand_in as _stand_in

if _TYPE_CHECKING:
    from openhpu.interface.hpu import *  # noqa: F403

_stand_in(_hpu, __name__)
