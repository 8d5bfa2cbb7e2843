"""The modules and optimizers that a function can reach, on which its work depends beside its arguments."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

_DEPTH = 6
_LIBRARIES = ("torch", "builtins", "openhpu", "habana_frameworks", "numpy", "functools", "typing", "logging")


class Reachable:
    """Modules and optimizers in a function's closure, globals, defaults, bound object and arguments.

    Other functions of the script that it names are followed as well. `names` are the variables through which something
    was found; `is_current` tells whether they still hold the same objects.
    """

    def __init__(self, function: Callable[..., Any], args: Any) -> None:
        self.modules: list[nn.Module] = []
        self.optimizers: list[torch.optim.Optimizer] = []
        self._seen: set[int] = set()
        self._names: list[tuple[dict[str, Any], str, Any]] = []
        self._cells: list[tuple[types.CellType, Any]] = []
        self._visit(function, 0)
        self._visit(args, 0)

    def is_current(self) -> bool:
        """Whether the variables have the same values as before."""
        return all(names.get(name) is value for names, name, value in self._names) and all(
            cell.cell_contents is value for cell, value in self._cells
        )

    def _visit(self, value: Any, depth: int) -> bool:
        """Look into `value`; returns whether something that matters was found in it now or before."""
        if id(value) in self._seen:
            return True
        if depth > _DEPTH or isinstance(value, str | bytes | int | float | torch.Tensor | types.ModuleType):
            return False
        if isinstance(value, nn.Module):
            self._seen.add(id(value))
            self.modules.append(value)
            return True
        if isinstance(value, torch.optim.Optimizer):
            self._seen.add(id(value))
            self.optimizers.append(value)
            return True
        if isinstance(value, list | tuple | set):
            return any([self._visit(part, depth + 1) for part in value])
        if isinstance(value, dict):
            return any([self._visit(part, depth + 1) for part in value.values()])
        if isinstance(value, functools.partial):
            return any([self._visit(part, depth + 1) for part in (value.func, value.args, value.keywords)])
        if isinstance(value, types.MethodType):
            return any([self._visit(value.__func__, depth), self._visit(value.__self__, depth)])
        if isinstance(value, types.FunctionType):
            return self._visit_function(value, depth)
        if _is_of_the_script(type(value)):
            self._seen.add(id(value))
            found = [self._named(vars(value), name, depth) for name in list(getattr(value, "__dict__", ()))]
            return any(found)
        return False

    def _visit_function(self, function: types.FunctionType, depth: int) -> bool:
        if not _is_of_the_script(function):
            return False
        self._seen.add(id(function))
        found = False
        for cell in function.__closure__ or ():
            try:
                value = cell.cell_contents
            except ValueError:  # not yet assigned
                continue
            if self._visit(value, depth + 1):
                self._cells.append((cell, value))
                found = True
        for name in _global_names(function.__code__):
            found = self._named(function.__globals__, name, depth) or found
        for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            found = self._visit(default, depth + 1) or found
        wrapped = inspect.unwrap(function)
        return (wrapped is not function and self._visit(wrapped, depth + 1)) or found

    def _named(self, names: dict[str, Any], name: str, depth: int) -> bool:
        if name not in names:
            return False
        value = names[name]
        if not self._visit(value, depth + 1):
            return False
        self._names.append((names, name, value))
        return True


def _global_names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


def _is_of_the_script(thing: Any) -> bool:
    """Whether a function or class is the script's own, not one of PyTorch's or Python's, which hold nothing of it."""
    module = (getattr(thing, "__module__", None) or "").partition(".")[0]
    return module not in _LIBRARIES
