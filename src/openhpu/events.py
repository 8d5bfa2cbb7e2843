"""The module `openhpu.observe.events` under the name that scripts import: this one replaces itself by it."""

import sys
from typing import TYPE_CHECKING

from openhpu.observe import events

if TYPE_CHECKING:
    from openhpu.observe.events import *  # noqa: F403

sys.modules[__name__] = events
