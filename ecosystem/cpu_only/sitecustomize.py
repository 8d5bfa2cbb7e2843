"""First on the path of processes that run a lane's failed tests again on the CPU: there is no hpu in them."""

import os
import sys

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
for name in ("habana_frameworks", "openhpu"):
    sys.modules[name] = None  # type: ignore[assignment]
