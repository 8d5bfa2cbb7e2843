"""Options of the backend: `torch.compile(..., options={...})`, and the environment variables that they override."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openhpu import settings
from openhpu.settings.kinds import SettingError

# Option: environment variable. All of Gaudi's; which of them change something says the table of settings.
VARIABLES = {
    "use_compiled_recipes": "PT_HPU_COMPILE_USE_RECIPES",
    "decomposition_mode": "PT_HPU_COMPILE_DECOMPOSITION_MODE",
    "keep_input_mutations": "PT_HPU_KEEP_INPUT_MUTATIONS",
    "use_eager_fallback": "PT_HPU_USE_EAGER_FALLBACK",
    "use_graph_freezing": "PT_HPU_COMPILE_GRAPH_FREEZE",
    "discard_frozen_params": "PT_HPU_COMPILE_DISCARD_FROZEN_PARAMS",
    "remove_unnecessary_clones": "PT_HPU_COMPILE_REMOVE_UNNECESSARY_CLONES",
    "use_inplace_allreduce": "PT_HPU_USE_INPLACE_COLLECTIVE",
    "use_inplace_index_copy": "PT_HPU_USE_INPLACE_INDEX_COPY",
    "inference": "PT_HPU_USE_INFERENCE_COMPILER",
    "enable_sfg": "PT_HPU_ENABLE_SFG",
    "use_cpp_partitioner": "PT_HPU_USE_CPP_PARTITIONER",
    "enable_allreduce_graph_split": "PT_HPU_ENABLE_ALLREDUCE_GRAPH_SPLIT",
    "force_static_compile": "PT_HPU_FORCE_STATIC_COMPILE",
    "reinplace_add": "PT_HPU_REINPLACE_ADD",
    "reassign_full_copy": "PT_HPU_REASSIGN_FULL_COPY",
    "reassign_copy_": "PT_HPU_REASSIGN_COPY_",
    "use_boxed_input": "PT_HPU_USE_BOXED_INPUT",
}
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
    max_captures: int = 64  # of one graph, for inputs of different metadata


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
