"""The module `openhpu.capture.torch_compile` under the name that scripts import: this one replaces itself by it."""

import sys
from typing import TYPE_CHECKING

from openhpu.capture import torch_compile
from openhpu.interface.names import alias_submodules

if TYPE_CHECKING:
    from openhpu.capture.torch_compile import *  # noqa: F403

sys.modules[__name__] = torch_compile
alias_submodules(torch_compile, __name__)
