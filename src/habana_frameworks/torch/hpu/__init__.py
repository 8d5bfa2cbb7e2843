"""The module object of `torch.hpu` under Gaudi's name: this module replaces itself by it."""

import sys
from typing import TYPE_CHECKING

from openhpu.interface import hpu as _hpu

if TYPE_CHECKING:
    from openhpu.interface.hpu import *  # noqa: F403

sys.modules[__name__] = _hpu
