"""`torch.hpu`, which is also `habana_frameworks.torch.hpu`: only names, from the modules beside it."""

# ruff: noqa: F403 - each of these modules has __all__

import sys
from typing import TYPE_CHECKING, Any

from openhpu.capture import hpu_graphs
from openhpu.device import arguments, memory as memory, mode, random as random, streams as streams
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
from openhpu.observe import differences, metrics as metrics

if TYPE_CHECKING:
    from openhpu.capture.hpu_graphs import *

_utils = arguments  # as torch.cuda._utils
graphs = hpu_graphs
# Libraries also write torch.hpu.hpu and habana_frameworks.torch.core.hpu.
hpu = sys.modules[__name__]

# A Gaudi has no graphs in eager mode. With OPENHPU_STRICT=gaudi a script that asks for their names finds none there.
_NO_GRAPHS_IN_EAGER = differences.as_gaudi("graphs-in-eager")
_LATER = () if _NO_GRAPHS_IN_EAGER else tuple(hpu_graphs.__all__)

if not TYPE_CHECKING:  # which knows all names from the imports
    __all__ = [*(name for name in globals() if not name.startswith("_") and name != "TYPE_CHECKING"), *_LATER]


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


def __getattr__(name: str) -> Any:
    if name in hpu_graphs.__all__:
        if not _NO_GRAPHS_IN_EAGER or mode.is_lazy():
            return getattr(hpu_graphs, name)
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}: {differences.BY_KIND['graphs-in-eager'].message}"
        )
    if name == "default_generators":
        return random.default_generators
    if name == "_initialized":
        return is_initialized()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
