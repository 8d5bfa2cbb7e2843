"""Settings of every Python test: no module locks, so that processes run side by side; Ctrl-C is heard."""

import os
import signal

os.environ.setdefault("OPENHPU_MODULE_LOCKS", "0")
# A shell's background jobs ignore it, and what they start inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)
