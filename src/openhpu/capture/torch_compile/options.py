"""Options of the backend: `torch.compile(..., options={...})`, and the environment variables that they override."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openhpu import settings
from openhpu.settings.kinds import SettingError

# Option: environment variable. All of Gaudi's; which of them change something says the table of settings.
VARIABLES = {row.option: row.name for row in settings.ROWS if row.option}
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


@dataclass(frozen=True)
class Options:
    """The options of the backend."""

    use_compiled_recipes: bool
    decomposition_mode: str
    keep_input_mutations: bool
    use_eager_fallback: bool
    use_graph_freezing: bool
    use_inplace_index_copy: bool
    inference: bool
    force_static_compile: bool


def read(given: Mapping[str, Any] | None = None, mode: str | None = None) -> Options:
    """The options of the environment, overridden by those `given` to torch.compile.

    Raises ValueError for an option or mode that does not exist and for a value that is not allowed.
    """
    if mode is not None and mode not in MODES:
        raise ValueError(f"hpu_backend: mode={mode!r} is not known; expected one of {', '.join(MODES)}")
    values = {name: settings.get(variable) for name, variable in VARIABLES.items()}
    for name, value in (given or {}).items():
        variable = VARIABLES.get(name)
        if variable is None:
            raise ValueError(f"hpu_backend: there is no option {name!r}; the options are {', '.join(VARIABLES)}")
        row = settings.find(variable)
        assert row is not None
        try:
            values[name] = row.parse(str(int(value)) if isinstance(value, bool) else str(value), variable)
        except SettingError as error:
            raise ValueError(f"hpu_backend: option {name!r}: {error}") from error
    return Options(**{name: values[name] for name in Options.__dataclass_fields__ if name in values})
