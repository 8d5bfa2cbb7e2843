"""The module object of `torch.hpu` under Gaudi's name: this module replaces itself by it."""

import sys
from typing import TYPE_CHECKING

from openhpu import hpu

if TYPE_CHECKING:
    from openhpu.hpu import *  # noqa: F403

sys.modules[__name__] = hpu
