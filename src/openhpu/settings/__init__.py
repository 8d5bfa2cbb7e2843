"""The environment variables: one table, which parses, validates and documents them.

`get` gives a variable's typed value, `check_environment` validates all of them (at import of the package), and
`python -m openhpu.settings` prints `docs/environment.md`. The rows themselves are in `table.py`.
"""

from openhpu.settings.access import (
    check_environment,
    get,
    is_set,
    is_strict,
    overridden,
    override,
)
from openhpu.settings.chosen_devices import DeviceSetup, device_setup, machine_modules
from openhpu.settings.kinds import Setting, SettingError
from openhpu.settings.table import ROWS, find

__all__ = [
    "ROWS",
    "DeviceSetup",
    "Setting",
    "SettingError",
    "check_environment",
    "device_setup",
    "find",
    "get",
    "is_set",
    "is_strict",
    "machine_modules",
    "overridden",
    "override",
]
