"""What a function of Python reaches and could change, and how that is given back."""

import collections
import contextvars
import datetime
import decimal
import functools
import importlib.util
import io
import logging
import numbers
import operator
import os
import re
import sys
import threading
import types
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from openhpu import _C
from openhpu.capture.hpu_graphs import kept, parts
from openhpu.capture.hpu_graphs.kept import Change, Kept
from openhpu.capture.hpu_graphs.parts import Whole

_MOST_PARTS = 1_000_000
_MOST_BYTES = 4 << 30  # of contents that are copied
_IMMUTABLE: tuple[type, ...] = (
    *(cls for cls in parts._ATOMS if cls.__module__ != "enum"),
    numbers.Number,
    str,
    bytes,
    slice,
    re.Pattern,
    re.Match,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    datetime.tzinfo,
    decimal.Decimal,
    operator.itemgetter,
    operator.attrgetter,
    operator.methodcaller,
    types.GenericAlias,
    types.UnionType,
    types.MethodWrapperType,
    contextvars.ContextVar,  # the plain call runs in a copy of the context
    contextvars.Token,
    contextvars.Context,
    _C.CapturedGraph,
    type({}.keys()),
    type({}.values()),
    type({}.items()),
)
_FOLLOWED: dict[type, tuple[str, ...]] = {
    types.MethodType: ("__self__", "__func__"),
    functools.partial: ("func", "args", "keywords"),
    functools.partialmethod: ("func", "args", "keywords"),
    functools._lru_cache_wrapper: ("__wrapped__",),
    property: ("fget", "fset", "fdel"),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    memoryview: ("obj",),
}
_WRITERS = {"write", "pwrite", "writev", "pwritev", "sendfile", "close", "dup2", "ftruncate", "posix_fallocate"}


class Reached:
    """All that can change and that the roots reach, as it is when this is made. A root is a value and its name.

    These are the attributes of objects and of their classes, the variables of closures, the globals and attributes of
    modules that the code names, defaults, entries and elements, contents of arrays and of tensors on the host, states
    of generators, positions of files. The code of libraries (Python's, PyTorch, NumPy and this one) is not looked into.
    `refused`: the name of an object whose changes could not be undone, and why; empty if there is none.
    """

    def __init__(self, *roots: tuple[str, Any]) -> None:
        self._roots = roots
        self._kept: list[Kept] = []
        self._metadata: dict[int, tuple[torch.Tensor, kept.Metadata]] = {}
        self._seen: dict[Any, Any] = {}  # by id: held, so that no other object gets the id
        self._bytes = 0
        self.refused = ""
        with torch._C.DisableTorchFunction():
            self._walk()

    def _walk(self) -> None:
        waiting: list[tuple[str, Any, Any]] = [(name, value, ()) for name, value in self._roots]
        for name, value, names in waiting:  # grows meanwhile
            key = (id(value), id(names)) if isinstance(value, types.ModuleType) else id(value)
            if key in self._seen or type(value) in (bool, int, float, str, type(None)):
                continue
            self._seen[key] = value, names
            waiting += self._look(name, value, names)
            if len(waiting) > _MOST_PARTS:
                self._refuse(name, value, "the function reaches too much for it to be undone")
            if self.refused:
                break

    def _refuse(self, name: str, value: Any, why: str) -> None:
        cls = type(value)
        kind = cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
        called = f"`{name}`" if name else "an object"
        self.refused = self.refused or f"it reaches {called} of type {kind}: {why}"

    def _look(self, name: str, value: Any, names: Iterable[str]) -> Iterator[tuple[str, Any, Any]]:
        """Keep what belongs to `value`; gives what it refers to."""
        if isinstance(value, torch.Tensor):
            yield from self._look_at_tensor(name, value)
        elif isinstance(value, Whole):
            return
        elif isinstance(value, types.FunctionType):
            yield from self._look_into_code(name, value)
        elif isinstance(value, type):
            yield from self._look_at_class(name, value)
        elif isinstance(value, types.ModuleType):
            yield from self._look_at_module(name, value, names)
        elif isinstance(value, types.BuiltinFunctionType):
            if not isinstance(value.__self__, types.ModuleType | type | None):
                yield name, value.__self__, ()
        elif type(value) in _FOLLOWED:
            for attribute in _FOLLOWED[type(value)]:
                part = getattr(value, attribute)
                own = "self" if attribute == "__self__" and not name else name
                yield own, part, ()
            yield from self._look_at_attributes(name, value)
        elif isinstance(value, weakref.ReferenceType):
            yield name, value(), ()
        elif type(value) in weakref.ProxyTypes:
            yield name, value.__repr__.__self__, ()
        elif isinstance(value, types.CellType):
            yield from self._look_at_cell(name, value)
        elif isinstance(value, types.MappingProxyType):
            for key, part in value.items():
                yield f"{name}{_shown(key)}", part, ()
        elif _is_standard(value):
            return
        elif (contents := kept.kind_of_contents(value)) is not None:
            yield from self._look_at_contents(name, value, contents)
        elif isinstance(value, io.IOBase):
            if not value.closed:
                self._refuse(name, value, "what is written to a file stays there")
        else:
            yield from self._look_at_object(name, value)

    def _look_at_tensor(self, name: str, value: torch.Tensor) -> Iterator[tuple[str, Any, Any]]:
        if value.layout is torch.strided and not value.is_nested and value.device.type != "meta":
            try:
                known = kept.Metadata(name, value)
            except Exception as error:  # of a class of tensors
                self._refuse(name, value, f"its state can't be taken ({error})")
                return
            self._metadata[id(value)] = value, known
            self._kept.append(known)
            if value.device.type == "cpu":
                storage = value.untyped_storage()
                if storage._cdata not in self._seen:
                    self._seen[storage._cdata] = storage, ()
                    yield from self._look_at_contents(name, storage, kept.STORAGE)
            if value.is_leaf and value.grad is not None:
                yield f"{name}.grad", value.grad, ()
        elif value.device.type != "meta":
            self._refuse(name, value, "a sparse or nested tensor can't be put back")
        for hook in (value._backward_hooks or {}).values():
            yield f"{name}._backward_hooks", hook, ()
        yield from self._look_at_attributes(name, value)

    def _look_at_contents(self, name: str, value: Any, kind: kept.KeptKind) -> Iterator[tuple[str, Any, Any]]:
        self._bytes += kind.size(value)
        if self._bytes > _MOST_BYTES:
            self._refuse(name, value, "there is no memory for a copy of what it holds")
            return
        try:
            self._kept.append(kept.Contents(name, value, kind))
        except Exception as error:  # of any class
            self._refuse(name, value, f"its state can't be taken ({error})")
            return
        if getattr(getattr(value, "dtype", None), "hasobject", False):
            for i, part in enumerate(value.ravel().tolist()):
                yield f"{name}.flat[{i}]", part, ()
        yield from self._look_at_attributes(name, value)

    def _look_at_object(self, name: str, value: Any) -> Iterator[tuple[str, Any, Any]]:
        """A container, an instance of a class of Python's, or of one that is not known."""
        cls: Any = type(value)
        if isinstance(value, dict):
            self._kept.append(kept.Entries(lambda key: f"{name}{_shown(key)}", value))
            yield from self._entries(name, value)
        elif isinstance(value, list | collections.deque):
            self._kept.append(kept.Elements(name, value))
            yield from ((f"{name}[{i}]", part, ()) for i, part in enumerate([*value]))
        elif isinstance(value, set):
            self._kept.append(kept.Members(name, value))
            yield from ((name, part, ()) for part in [*value])
        elif isinstance(value, tuple | frozenset):
            yield from ((f"{name}[{i}]", part, ()) for i, part in enumerate(value))
        elif isinstance(value, BaseException):
            yield f"{name}.args", value.args, ()
        elif isinstance(value, logging.Logger):
            self._kept.append(kept.Entries(lambda key: f"{name}.{key}", value.__dict__))
            self._kept += [kept.Elements(name, each) for each in (value.handlers, value.filters)]
            return
        elif isinstance(value, _IMMUTABLE) and not isinstance(value, numbers.Number | str | bytes):
            return
        elif not isinstance(value, _IMMUTABLE) and not _is_of_python(cls):
            self._refuse_unknown(name, value)
            return
        yield from self._look_at_attributes(name, value)
        if not _is_library_class(cls):
            yield name, cls, ()

    def _refuse_unknown(self, name: str, value: Any) -> None:
        """Of a class that is not Python's: it is refused, unless PyTorch or this project made it."""
        cls = type(value)
        if cls.__module__.partition(".")[0] in ("torch", "openhpu") and not _is_scripted(value):
            return
        iterates = hasattr(cls, "__next__") or isinstance(value, types.CoroutineType)
        self._refuse(
            name, value, "what is taken from it can't be put back" if iterates else "what changes in it can't be undone"
        )

    @staticmethod
    def _entries(name: str, value: dict[Any, Any]) -> Iterator[tuple[str, Any, Any]]:
        for key, part in [*dict.items(value)]:
            if not isinstance(key, str | int):
                yield f"{name}.keys()", key, ()
            yield f"{name}{_shown(key)}", part, ()

    def _look_at_attributes(self, name: str, value: Any) -> Iterator[tuple[str, Any, Any]]:
        own = getattr(value, "__dict__", None)
        if isinstance(own, dict):
            self._kept.append(kept.Entries(lambda key: f"{name}.{key}", own, owner=value))
            module = isinstance(value, nn.Module)
            for key, part in [*own.items()]:
                if module and key in ("_parameters", "_buffers", "_modules"):
                    self._seen[id(part)] = part, ()
                    self._kept.append(kept.Entries(lambda key: f"{name}.{key}", part))
                    yield from ((f"{name}.{inner}", each, ()) for inner, each in [*part.items()])
                else:
                    yield f"{name}.{key}", part, ()
        if parts._slots(type(value)):
            slots = kept.Slots(name, value)
            self._kept.append(slots)
            yield from ((f"{name}.{key}", part, ()) for key, part in slots.parts())

    def _look_at_class(self, name: str, value: type) -> Iterator[tuple[str, Any, Any]]:
        for cls in value.__mro__:
            if _is_library_class(cls) or (cls is not value and id(cls) in self._seen):
                continue
            self._seen[id(cls)] = cls, ()
            self._kept.append(kept.ClassAttributes(name or cls.__qualname__, cls))
            for key, part in [*vars(cls).items()]:
                function = isinstance(part, types.FunctionType | property | staticmethod | classmethod)
                if function:
                    yield name, part, ()
                elif not (key.startswith("__") and key.endswith("__")) and not key.startswith("_abc_"):
                    yield f"{name or cls.__qualname__}.{key}", part, ()
        if type(value) is not type:
            yield "", type(value), ()

    def _look_at_module(
        self, name: str, value: types.ModuleType, names: Iterable[str]
    ) -> Iterator[tuple[str, Any, Any]]:
        if value is os and _WRITERS.intersection(names):
            self._refuse(name, value, f"os.{min(_WRITERS.intersection(names))} changes what is outside of the process")
            return
        file = getattr(value, "__file__", None)
        library = file is None or _is_library(file)
        if library and not _is_of_stdlib(value):
            return
        own = vars(value)
        if not library:
            self._kept.append(kept.Names(f"{name}.", own, names))
        for key in names:
            part = own.get(key)
            if library and (callable(part) or isinstance(part, types.ModuleType) or own is vars(sys)):
                continue
            yield f"{name}.{key}", part, names

    def _look_into_code(self, name: str, function: types.FunctionType) -> Iterator[tuple[str, Any, Any]]:
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            yield variable, cell, ()
        yield from self._look_at_attributes(name or function.__qualname__, function)
        if _is_library(function.__code__.co_filename):
            return
        for key in ("__defaults__", "__kwdefaults__"):
            yield f"{function.__qualname__}.{key}", getattr(function, key), ()
        names = _names(function.__code__)
        own = function.__globals__
        self._kept.append(kept.Names("", own, (key for key in names if key in own or key not in _builtins())))
        yield from ((key, own[key], names) for key in names if key in own)

    def _look_at_cell(self, name: str, cell: types.CellType) -> Iterator[tuple[str, Any, Any]]:
        self._kept.append(kept.Variable(name, cell))
        try:
            yield name, cell.cell_contents, ()
        except ValueError:  # not yet assigned
            return

    @property
    def tensors(self) -> list[torch.Tensor]:
        """Those on hpu."""
        return [tensor for tensor, _ in self._metadata.values() if tensor.device.type == "hpu"]

    def written(self) -> list[torch.Tensor]:
        """The tensors on hpu that were written since, as far as PyTorch counts."""
        return [t for t, known in self._metadata.values() if t.device.type == "hpu" and known.written()]

    def changes(self) -> Iterator[Change]:
        """What is not as it was."""
        with torch._C.DisableTorchFunction():
            found = [change for each in self._kept if not each.same() for change in each.changes()]
        yield from found

    def of_now(self) -> "Reached":
        """What the roots reach now: this object, if no reference is another one."""
        with torch._C.DisableTorchFunction():
            if not self.refused and all(each.changing or each.same() for each in self._kept):
                for each in self._kept:
                    each.again()
                return self
        return Reached(*self._roots)

    def restore(self) -> None:
        """Give everything back that changed."""
        with torch._C.DisableTorchFunction():
            for each in self._kept:
                if not each.same():
                    each.restore()


def _shown(key: Any) -> str:
    """An entry of a dict, as the end of its name."""
    if isinstance(key, str) and key.isidentifier():
        return f".{key}"
    return f"[{key!r}]" if isinstance(key, str | int) else f"[<{type(key).__name__}>]"


@functools.lru_cache(maxsize=4096)
def _names(code: types.CodeType) -> tuple[str, ...]:
    """What the code may use as names of globals and attributes: also texts in it."""
    found = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= dict.fromkeys(_names(constant))
        elif isinstance(constant, str) and constant.isidentifier():
            found[constant] = None
    return (*found,)


@functools.cache
def _builtins() -> frozenset[str]:
    import builtins

    return frozenset(vars(builtins))


@functools.cache
def _library_folders() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Folders of the standard library, and those of libraries that are not looked into."""
    import openhpu

    own = Path(openhpu.__file__).parent
    numpy = importlib.util.find_spec("numpy")
    folders = [Path(torch.__file__).parent, own, own.parent / "habana_frameworks"]
    folders += [Path(numpy.origin).parent] if numpy and numpy.origin else []
    return (f"{Path(os.__file__).parent}{os.sep}",), tuple(f"{folder}{os.sep}" for folder in folders)


@functools.lru_cache(maxsize=65536)
def _is_library(file: str) -> bool:
    standard, others = _library_folders()
    third_party = "site-packages" in file or "dist-packages" in file
    return file.startswith(("<frozen", *others)) or (file.startswith(standard) and not third_party)


def _is_of_stdlib(module: types.ModuleType) -> bool:
    return module.__name__.partition(".")[0] in sys.stdlib_module_names


@functools.lru_cache(maxsize=65536)
def _is_library_class(cls: Any) -> bool:
    if not cls.__flags__ & 1 << 9:  # made by C
        return True
    module = sys.modules.get(cls.__module__)
    file = getattr(module, "__file__", None)
    if file is None:
        return cls.__module__ != "__main__" and module is not None and cls.__module__ in sys.stdlib_module_names
    return _is_library(file)


@functools.lru_cache(maxsize=65536)
def _is_of_python(cls: Any) -> bool:
    """Whether Python's attributes are all that its objects hold."""
    return issubclass(cls, threading.local) or parts._builtin(cls) is not None


def _is_scripted(value: Any) -> bool:
    return isinstance(value, torch._C.ScriptModule | torch._C.ScriptObject)


def _is_standard(value: Any) -> bool:
    """Whether it is one of the process's own streams, which are silent during the plain call."""
    return any(value is each for each in (sys.stdout, sys.stderr, sys.stdin, sys.__stdout__, sys.__stderr__))
