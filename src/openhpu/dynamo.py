"""The module `openhpu.capture.torch_compile` under the name that scripts import: this one replaces itself by it."""

from openhpu.capture import torch_compile
from openhpu.capture.torch_compile import *  # noqa: F403
from openhpu.interface.names import stand_in

stand_in(torch_compile, __name__)
