"""The module object of `torch.hpu` under Gaudi's name: this module replaces itself by it."""

from openhpu.interface import hpu as _hpu
from openhpu.interface.hpu import *  # noqa: F403
from openhpu.interface.names import stand_in as _stand_in

_stand_in(_hpu, __name__)
