"""Arguments of Gaudi's operators, as attributes of an object that does not change."""

from typing import NoReturn, dataclass_transform


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Arguments:
    """The arguments of one call, by their names in the operator's schema.

    `operators` has a subclass for each function of operators.tsv. `operator`: the name without overload, for errors.
    """

    operator: str

    def __init__(self, /, **values: object) -> None:
        vars(self).update(values)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"arguments of an operator do not change; {name} was to become {value!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"arguments of an operator do not change; {name} was to go")
