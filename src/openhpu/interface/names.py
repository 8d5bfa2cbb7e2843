"""Modules and functions under the names that scripts import."""

import functools
import sys
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def alias_submodules(package: ModuleType, alias: str) -> None:
    """Let `import alias.x` give the module object `package.x`, for each module of this project that `package` names,
    and for its submodules in turn."""
    for name, found in list(vars(package).items()):
        is_ours = isinstance(found, ModuleType) and found.__name__.startswith("openhpu.") and found is not package
        if is_ours and sys.modules.setdefault(f"{alias}.{name}", found) is found and hasattr(found, "__path__"):
            alias_submodules(found, f"{alias}.{name}")


def stand_in(package: ModuleType, alias: str) -> None:
    """Let `import alias` give the module object `package`, and so on for its submodules."""
    sys.modules[alias] = package
    alias_submodules(package, alias)


def deprecated(old: str, new: str) -> Callable[[Function], Function]:
    """Make of a function the one named `old`: each call warns, and says to use `new`."""

    def under_old_name(function: Function) -> Function:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            warnings.warn(f"{old} is deprecated; use {new}", FutureWarning, stacklevel=2)
            return function(*args, **kwargs)

        call.__name__ = old.rpartition(".")[2]
        call.__doc__ = f"Deprecated: use {new}."
        return call  # type: ignore[return-value]

    return under_old_name


def refused(name: str, why: str) -> ImportError:
    """The error of a module of Gaudi's that is not built, for the module to raise."""
    return ImportError(f"{name} is not there: {why}", name=name)
