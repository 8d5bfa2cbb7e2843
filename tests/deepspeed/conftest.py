"""Settings of the ranks' processes: graphs run operator by operator, but where a test is about recipes."""

import os

os.environ.setdefault("OPENHPU_COMPILE", "off")
