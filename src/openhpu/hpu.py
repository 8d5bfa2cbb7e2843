"""The module `openhpu.interface.hpu` under the name that scripts import: this one replaces itself by it."""

import sys
from typing import TYPE_CHECKING

from openhpu.interface import hpu as _hpu
from openhpu.interface.names import alias_submodules

if TYPE_CHECKING:
    from openhpu.interface.hpu import *  # noqa: F403

sys.modules[__name__] = _hpu
alias_submodules(_hpu, __name__)
