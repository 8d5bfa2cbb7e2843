"""Modules whose names come from the table: torch.cuda and its parts, pynvml, and Apex."""

import ast
import contextlib
import importlib
import inspect
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from openhpu.integration.migration import migration_log, own
from openhpu.integration.migration.cuda_names import PAGE, ROWS, CudaName, refusal


def resolve(path: str) -> Any:
    """The object of a dotted name: of a class, what it has without binding it. AttributeError where it is missing."""
    owner, _, name = path.rpartition(".")
    if not owner:
        return importlib.import_module(name)
    found = resolve(owner)
    if isinstance(found, type):
        return inspect.getattr_static(found, name)
    try:
        return getattr(found, name)
    except AttributeError:
        with contextlib.suppress(ImportError):
            return importlib.import_module(path)
        raise


def stands_for(row: CudaName) -> Any:
    """What is installed under a row's name."""
    if row.install == "object":
        return resolve(row.counterpart)
    if row.install == "own":
        return own.BY_NAME[row.name]
    if row.install == "later":
        return own.BY_NAME[row.name]()
    value = ast.literal_eval(row.counterpart)
    return value if row.install == "constant" else lambda *args, **kwargs: value


class Migrated(ModuleType):
    """A module with the table's names that begin with `prefix`. Each is made when it is first asked for.

    `original` is the module in whose place it stands, which still has private names and what is no name of CUDA's.
    """

    def __init__(self, name: str, original: ModuleType | None, prefix: str = "") -> None:
        super().__init__(name, original.__doc__ if original else None)
        self.__dict__["_original"] = original
        self.__dict__["_prefix"] = prefix or name
        for attribute in ("__path__", "__spec__", "__file__", "__all__", "__package__"):
            if hasattr(original, attribute):
                self.__dict__[attribute] = getattr(original, attribute)

    def __getattr__(self, name: str) -> Any:
        full = f"{self._prefix}.{name}"
        row = ROWS.get(full)
        if row is None:
            return self._without_row(name, full)
        if migration_log.level:
            migration_log.used(full)
        if row.how == "refused" and row.install == "none":
            raise AttributeError(refusal(row), name=name, obj=self)
        if row.install == "none":
            return getattr(self._original, name)
        if row.install == "module":
            return sys.modules[full]
        value = stands_for(row)
        if callable(value) and not migration_log.level:
            self.__dict__[name] = value
        return value

    def _without_row(self, name: str, full: str) -> Any:
        if self._original is None:
            if name.startswith("__"):
                raise AttributeError(name)
        else:
            value = getattr(self._original, name)
            if name.startswith("_") or isinstance(value, ModuleType) or name not in self._original.__all__:
                return value
        if migration_log.level:
            migration_log.used(full)
        raise AttributeError(
            f"{full} is not in OpenHPU's table of CUDA names, so nothing stands for it on hpu; {PAGE} lists those that "
            "are",
            name=name,
            obj=self,
        )

    def __dir__(self) -> list[str]:
        own_names = [name.removeprefix(f"{self._prefix}.") for name in ROWS if name.startswith(f"{self._prefix}.")]
        return sorted({*self.__dict__, *(name for name in own_names if "." not in name)})


class Finder:
    """Finds packages that the table has: pynvml, also where it is installed, and Apex where it is not."""

    def __init__(self, root: str) -> None:
        self._root = root

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec of `root` and of a package in it that has a row."""
        if name.split(".")[0] != self._root or not any(row.startswith(f"{name}.") for row in ROWS):
            return None
        return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]  # a loader, too

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module."""
        return Migrated(spec.name, None)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to do."""
