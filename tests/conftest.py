"""Settings of every Python test: no module locks, so that test processes can run side by side."""

import os

os.environ.setdefault("OPENHPU_MODULE_LOCKS", "0")
