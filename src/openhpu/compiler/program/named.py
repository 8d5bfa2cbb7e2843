"""Functions that take an operator's arguments by their names in its schema, which then stand there alone."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any


class Arguments(SimpleNamespace):
    """The arguments as attributes."""


def by_name(formals: Sequence[Any], function: Callable[[Arguments], Any], **more: Any) -> Callable[..., Any]:
    """`function`, to be called as the operator whose schema has the arguments `formals`; `more` are attributes, too."""
    names = [formal.name for formal in formals]
    defaults = {formal.name: formal.default_value for formal in formals if formal.has_default_value()} | more

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(Arguments(**defaults | dict(zip(names, args, strict=False)) | kwargs))

    return call
