"""Settings of every Python test: no module locks, so that processes run side by side; shared headers; Ctrl-C."""

import os
import signal

from tests.processes import HEADERS

os.environ.setdefault("OPENHPU_MODULE_LOCKS", "0")
os.environ.setdefault("OPENHPU_HEADER_CACHE", HEADERS)
# A shell's background jobs ignore it, and what they start inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)
