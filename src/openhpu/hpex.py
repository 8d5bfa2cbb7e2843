"""The module `openhpu.interface.hpex` under the name that scripts import: this one replaces itself by it."""

import sys
from typing import TYPE_CHECKING

from openhpu.interface import hpex
from openhpu.interface.hpex import (  # noqa: F401
    attention,
    bindings,
    kernels,
    movingavrg,
    normalization,
    optimizers,
    rotary,
    sparse_features,
    transformer_engine,
)
from openhpu.interface.names import alias_submodules

if TYPE_CHECKING:
    from openhpu.interface.hpex import *  # noqa: F403

sys.modules[__name__] = hpex
alias_submodules(hpex, __name__)
