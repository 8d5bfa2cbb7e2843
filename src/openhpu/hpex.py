"""The module `openhpu.interface.hpex` under the name that scripts import: this one replaces itself by it."""

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
from openhpu.interface.names import stand_in

if TYPE_CHECKING:
    from openhpu.interface.hpex import *  # noqa: F403

stand_in(hpex, __name__)
