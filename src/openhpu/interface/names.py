"""Modules under the names that scripts import."""

import sys
from types import ModuleType


def alias_submodules(package: ModuleType, alias: str) -> None:
    """Let `import alias.x` give the module object `package.x`, for each module of this project that `package` names,
    and for its submodules in turn."""
    for name, found in list(vars(package).items()):
        is_ours = isinstance(found, ModuleType) and found.__name__.startswith("openhpu.") and found is not package
        if is_ours and sys.modules.setdefault(f"{alias}.{name}", found) is found and hasattr(found, "__path__"):
            alias_submodules(found, f"{alias}.{name}")
