"""The environment variables: one table, which parses and validates them.

`get` gives a variable's typed value, `check_environment` validates all of them (at import of the package), and
`make docs` puts the rows into `docs/environment.md`. The rows themselves are in `variables.toml`.
Other tables of the code have the same reader, `tables`.
"""

from openhpu.settings.access import check_environment, follow, get, is_set, is_strict, overridden, override  # noqa: F401
from openhpu.settings.chosen_devices import DeviceSetup, device_setup, machine_modules  # noqa: F401
from openhpu.settings.kinds import Setting as Setting, SettingError as SettingError
from openhpu.settings.variables import ROWS as ROWS, find as find
