"""The module `openhpu.capture.torch_compile` under the name that scripts import: this one replaces itself by it."""

from typing import TYPE_CHECKING

from openhpu.capture import torch_compile
from openhpu.interface.names import stand_in

if TYPE_CHECKING:
    from openhpu.capture.torch_compile import *  # noqa: F403

stand_in(torch_compile, __name__)
