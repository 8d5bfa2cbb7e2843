"""`torch.hpu`, which is also `habana_frameworks.torch.hpu`: only names, from the modules beside it."""

# ruff: noqa: F403 - each of these modules has __all__

import sys
from typing import Any

from openhpu.capture import hpu_graphs
from openhpu.capture.hpu_graphs import *
from openhpu.device import arguments, memory as memory, random as random, streams as streams
from openhpu.device.arguments import _get_device_index as _get_device_index
from openhpu.device.devices import *
from openhpu.device.lifecycle import (
    _is_in_bad_fork as _is_in_bad_fork,
    _lazy_init as _lazy_init,
    init as init,
    is_initialized as is_initialized,
)
from openhpu.device.memory import *
from openhpu.device.random import *
from openhpu.device.streams import *
from openhpu.interface.hpu.autocast import *
from openhpu.interface.hpu.monitor import *
from openhpu.interface.hpu.switches import *
from openhpu.interface.hpu.tensor_types import *
from openhpu.observe import metrics as metrics

_utils = arguments  # as torch.cuda._utils
graphs = hpu_graphs
# Libraries also write torch.hpu.hpu and habana_frameworks.torch.core.hpu.
hpu = sys.modules[__name__]


def __getattr__(name: str) -> Any:
    if name == "default_generators":
        return random.default_generators
    if name == "_initialized":
        return is_initialized()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
