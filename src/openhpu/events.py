"""The module `openhpu.observe.events` under the name that scripts import: this one replaces itself by it."""

import sys

from openhpu.observe import events
from openhpu.observe.events import *  # noqa: F403

sys.modules[__name__] = events
