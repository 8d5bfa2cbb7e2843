"""Options of the backend: `torch.compile(..., options={...})`, and the environment variables that they override."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from openhpu import settings
from openhpu.settings.kinds import SettingError

# Option: environment variable. All of Gaudi's; which of them change something says the table of settings.
VARIABLES = {row.option: row for row in settings.ROWS if row.option}
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


class Options(SimpleNamespace):
    """The options of the backend, by their names in the table."""


def read(given: Mapping[str, Any] | None = None, mode: str | None = None) -> Options:
    """The options of the environment, overridden by those `given` to torch.compile.

    Raises ValueError for an option or mode that does not exist and for a value that is not allowed.
    """
    if mode is not None and mode not in MODES:
        raise ValueError(f"hpu_backend: mode={mode!r} is not known; expected one of {', '.join(MODES)}")
    values = {name: settings.get(row.name) for name, row in VARIABLES.items()}
    for name, value in (given or {}).items():
        row = VARIABLES.get(name)
        if row is None:
            raise ValueError(f"hpu_backend: there is no option {name!r}; the options are {', '.join(VARIABLES)}")
        try:
            values[name] = row.parse(str(int(value)) if isinstance(value, bool) else str(value))
        except SettingError as error:
            raise ValueError(f"hpu_backend: option {name!r}: {error}") from error
    return Options(**values)
