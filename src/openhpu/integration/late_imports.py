"""Work that waits for the import of a module, of torch's or another library's, which many scripts never import."""

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

_waiting: dict[str, list[Callable[[], object]]] = {}


def after_import(module: str, function: Callable[[], object]) -> None:
    """Call `function()` when `module` has been imported; now, if it is."""
    if module in sys.modules:
        function()
        return
    if not _waiting:
        sys.meta_path.insert(0, _Finder())
    _waiting.setdefault(module, []).append(function)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        functions = _waiting.pop(name, None)
        if functions is None:
            return None
        if not _waiting:
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)  # the other finders', for this name no longer waits
        if spec is None or spec.loader is None:
            return spec
        loader, execute = spec.loader, spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            for function in functions:
                function()

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
