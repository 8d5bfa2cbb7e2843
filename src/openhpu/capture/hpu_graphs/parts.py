"""How a value is taken apart and put together again: a kind for each class. `structure.Walk` is the only user."""

import collections
import contextlib
import copy
import enum
import functools
import inspect
import itertools
import logging
import pathlib
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any, NoReturn

import torch

Parts = list[Any]


class Unwalkable(Exception):
    """A value is of no kind that can be taken apart. The text says why, and what to give instead."""

    def __init__(self, value: Any, why: str) -> None:
        super().__init__(why)
        self.value = value


class Whole:
    """Its objects count as the ones that they are, and are not looked into."""


class Kind:
    """Values of one class: `rest`, which belongs in a key, and parts, which are values themselves."""

    copied = False  # a copy stands for a value without tensors as well: functions often change such values
    restorable = False  # `filled` also gives a value that a function changed other parts
    by_identity = False  # a value without tensors counts as the object that it is, beside its parts
    ordered = True  # the parts of a copy come in the same order
    reduced = False  # the parts are made anew each time

    def apart(self, value: Any) -> tuple[Any, Parts]:
        """The rest and the parts of `value`."""
        raise NotImplementedError

    def empty(self, value: Any) -> Any:
        """A new value without its parts, which may refer to it; None where it is made of its parts."""
        return None

    def filled(self, value: Any, new: Any, rest: Any, parts: Parts) -> Any:
        """`new`, from `empty`, with these parts; `value` is the one whose place it takes."""
        raise NotImplementedError

    def name(self, rest: Any, parts: Parts, i: int) -> str:
        """How a script reaches part `i`: `.mask`, `[2]`."""
        raise NotImplementedError

    def fixed(self, rest: Any) -> Any:
        """What a replay leaves as it is, of the rest."""
        return rest


# A plain value, or an object of the process, such as a stream; a class or a module, whose attributes a script may
# change; a number, compared by its bits; a tensor, whose parts are its attributes; what stands for a tensor.
ATOM, NAMESPACE, NUMBER, TENSOR, LEAF = (Kind() for _ in range(5))


class _Refused(Kind):
    def __init__(self, why: str) -> None:
        self._why = why

    def apart(self, value: Any) -> NoReturn:
        raise Unwalkable(value, self._why)


def _find_slots(cls: type) -> dict[str, Any]:
    """The attributes that `__slots__` of `cls` and its bases name, with their descriptors."""
    found = {"default_factory": vars(collections.defaultdict)["default_factory"]}
    found = found if issubclass(cls, collections.defaultdict) else {}
    for c in cls.__mro__:
        if "__slots__" in vars(c):
            found |= {n: d for n, d in vars(c).items() if isinstance(d, types.MemberDescriptorType)}
    return found


_slots: Callable[[type], dict[str, Any]] = functools.lru_cache(maxsize=1024)(_find_slots)


def attributes(value: Any) -> tuple[tuple[Any, ...], Parts]:
    """Names and values of what `__dict__` and `__slots__` hold. `__getstate__` of a class may leave things out."""
    state = dict(getattr(value, "__dict__", ()))
    for name, slot in _slots(type(value)).items():
        with contextlib.suppress(AttributeError):  # not yet assigned
            state[name] = slot.__get__(value)
    return (*state,), [*state.values()]


def set_attributes(new: Any, names: tuple[Any, ...], values: Parts) -> None:
    """Give `new` these attributes and no others, whatever its class does in `__setattr__`."""
    state = dict(zip(names, values, strict=True))
    for name, slot in _slots(type(new)).items():
        with contextlib.suppress(AttributeError):
            if name in state:
                slot.__set__(new, state.pop(name))
            else:
                slot.__delete__(new)
    if state or getattr(new, "__dict__", None):
        new.__dict__.clear()
        new.__dict__.update(state)


_KEYED: tuple[type, ...] = (collections.OrderedDict, collections.defaultdict, dict)
_SETS: tuple[type, ...] = (set, frozenset)
_BUILTIN: tuple[Any, ...] = (*_KEYED, *_SETS, list, tuple, collections.deque, types.SimpleNamespace, object)


class _Instance(Kind):
    """An object of Python's: what its builtin class holds, and its attributes. No code of its own class runs."""

    def __init__(self, cls: type, base: Any) -> None:
        self._cls = cls
        self._base = base
        self._bare = cls is base and base not in (types.SimpleNamespace, collections.defaultdict, object)
        self.ordered = base not in _SETS
        self.restorable = base not in (tuple, frozenset)
        self.copied = base in _KEYED or base in (list, collections.deque)
        self.by_identity = cls.__hash__ is object.__hash__
        self._take: Callable[[Any], Any] = list if self._bare else getattr(base, "__iter__", lambda _: ())
        if base in _KEYED:
            self._take = lambda value: itertools.chain.from_iterable(base.items(value))

    def apart(self, value: Any) -> tuple[Any, Parts]:
        parts: Parts = [*self._take(value)]
        rest: Any = (len(parts), value.maxlen) if self._base is collections.deque else len(parts)
        if self._bare:
            return rest, parts
        names, values = attributes(value)
        return (rest, names), parts + values

    def empty(self, value: Any) -> Any:
        new = self._base.__new__(self._cls) if self.restorable else None
        if self._base is collections.deque:
            collections.deque.__init__(new, (), value.maxlen)  # type: ignore[arg-type]
        return new

    def filled(self, value: Any, new: Any, rest: Any, parts: Parts) -> Any:
        names = () if self._bare else rest[1]
        own = parts[: len(parts) - len(names)]
        if not self.restorable:
            new = self._base.__new__(self._cls, own)
        elif self._base in _KEYED:
            self._base.clear(new)
            for key, part in zip(own[::2], own[1::2], strict=True):
                self._base.__setitem__(new, key, part)
        elif self._base not in (types.SimpleNamespace, object):
            self._base.clear(new)
            (self._base.update if self._base is set else self._base.extend)(new, own)
        if not self._bare:
            set_attributes(new, names, parts[len(own) :])
        return new

    def name(self, rest: Any, parts: Parts, i: int) -> str:
        names = () if self._bare else rest[1]
        own = len(parts) - len(names)
        if i >= own:
            return f".{names[i - own]}"
        if self._base not in _KEYED:
            return f"[{i}]"
        key = parts[i & ~1]
        shown = repr(key) if isinstance(key, str | int) else f"<{type(key).__name__}>"
        return f"[{shown}]" if i % 2 else f".keys()[{shown}]"

    def fixed(self, rest: Any) -> Any:
        # A list that grows would make each call one of another kind.
        return () if self._base in (*_KEYED, types.SimpleNamespace, object) else rest


class _Immutable(Kind):
    """An object that is made of its parts: a method; a weak reference, without what it calls at the end, to what takes
    its object's place. `names`: how a script reaches the parts."""

    def __init__(self, names: tuple[str, ...], apart: Callable[[Any], Parts], make: Callable[..., Any]) -> None:
        self._names = names
        self._apart = apart
        self._make = make

    def apart(self, value: Any) -> tuple[Any, Parts]:
        return (), self._apart(value)

    def filled(self, value: Any, new: Any, rest: Any, parts: Parts) -> Any:
        return self._make(*parts)

    def name(self, rest: Any, parts: Parts, i: int) -> str:
        return self._names[i]


class _Cell(Kind):
    """A variable of a closure."""

    restorable = True

    def apart(self, value: Any) -> tuple[Any, Parts]:
        try:
            return True, [value.cell_contents]
        except ValueError:  # not yet assigned
            return False, []

    def empty(self, value: Any) -> Any:
        return types.CellType()

    def filled(self, value: Any, new: Any, rest: Any, parts: Parts) -> Any:
        for part in parts:
            new.cell_contents = part
        return new

    def name(self, rest: Any, parts: Parts, i: int) -> str:
        return ""


class _Function(Kind):
    """A function of Python's: its code, the variables of its closure, its defaults and attributes."""

    by_identity = True
    _PARTS = ("__defaults__", "__kwdefaults__", "__dict__")

    def apart(self, value: Any) -> tuple[Any, Parts]:
        cells = value.__closure__ or ()
        rest = value.__code__, value.__module__, value.__qualname__, len(cells)
        return rest, [*cells, *(getattr(value, name) for name in self._PARTS)]

    def filled(self, value: Any, new: Any, rest: Any, parts: Parts) -> Any:
        *cells, defaults, keywords, names = parts
        new = types.FunctionType(rest[0], value.__globals__, value.__name__, defaults, tuple(cells))
        new.__kwdefaults__ = keywords
        new.__qualname__ = value.__qualname__
        new.__module__ = value.__module__
        new.__dict__.update(names)
        return new

    def name(self, rest: Any, parts: Parts, i: int) -> str:
        return f".__closure__[{rest[0].co_freevars[i]!r}]" if i < rest[3] else f".{self._PARTS[i - rest[3]]}"


class _Generator(Kind):
    def apart(self, value: Any) -> tuple[Any, Parts]:
        if value.device.type != "hpu":
            raise Unwalkable(value, "a replay can't draw from it; give a torch.Generator of the device hpu")
        return value, []


class _Reduced(Kind):
    """Any other object: what `copy.copy` makes another one of, and attributes."""

    reduced = True

    def __init__(self, cls: type) -> None:
        self.by_identity = cls.__hash__ is object.__hash__
        self.copied = cls.__hash__ is None  # type: ignore[comparison-overlap]

    def apart(self, value: Any) -> tuple[Any, Parts]:
        names, values = attributes(value)
        try:
            reduced = value.__reduce_ex__(4)
        except Exception as error:
            raise Unwalkable(value, f"what it holds can't be seen ({error}); give the values that are needed") from None
        if isinstance(reduced, str):
            if "<" in reduced:
                raise Unwalkable(value, "it is no global object; give the values that are needed")
            return (value,), []
        function, args, state, items, pairs = (*reduced, None, None, None)[:5]
        return (len(reduced), names), [function, args, state, items and [*items], pairs and [*pairs], *values]

    def filled(self, value: Any, new: Any, rest: Any, parts: Parts) -> Any:
        function, args, state, items, pairs = parts[:5]
        new = copy.copy(_Reducible((function, args, state, items and iter(items), pairs and iter(pairs))))
        if rest[1]:
            set_attributes(new, rest[1], parts[5:])
        return new

    def name(self, rest: Any, parts: Parts, i: int) -> str:
        return f".__reduce_ex__(4)[{i}]" if i < 5 else f".{rest[1][i - 5]}"


class _Reducible:
    """`copy.copy` of it is the object that `reduced` describes."""

    def __init__(self, reduced: tuple[Any, ...]) -> None:
        self._reduced = reduced

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return self._reduced


# What counts as the object that it is: it holds no tensor of a call's own, and what it does is fixed.
_ATOMS: tuple[type, ...] = (
    type(None),
    bool,
    int,
    str,
    bytes,
    range,
    type(...),
    type(NotImplemented),
    enum.Enum,
    Whole,
    types.CodeType,
    torch.dtype,
    torch.layout,
    torch.memory_format,
    torch.device,
    torch.Size,
    torch.Stream,
    torch.Event,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    type(threading.Lock()),
    type(threading.RLock()),
    logging.Logger,
    pathlib.PurePath,
    type(torch.ops.aten.relu),
    type(torch.ops.aten.relu.default),
)
_EXACT = (type(None), bool, int, str, bytes, range)  # classes of their own may derive from these
if torch.distributed.is_available():
    from torch.distributed.device_mesh import DeviceMesh

    _ATOMS = (*_ATOMS, torch.distributed.ProcessGroup, torch.distributed.Store, DeviceMesh)

_KINDS: dict[type, Kind] = {
    float: NUMBER,
    complex: NUMBER,
    types.MethodType: _Immutable((".__func__", ".__self__"), lambda m: [m.__func__, m.__self__], types.MethodType),
    types.CellType: _Cell(),
    types.FunctionType: _Function(),
    torch.Generator: _Generator(),
    weakref.ref: _Immutable(("()",), lambda reference: [reference()], weakref.ref),
}


def _builtin(cls: type) -> Any:
    """The builtin class that holds, beside attributes, all that an object of `cls` does; None: there is none."""
    base = next(c for c in cls.__mro__ if c in _BUILTIN)
    for c in cls.__mro__[: cls.__mro__.index(base)]:
        new = c.__dict__.get("__new__")
        if inspect.isbuiltin(new) and new.__self__ is c:
            return None
    size = base.__basicsize__ + 8 * len(_slots(cls))
    for c, sign in ((cls, 1), (base, -1)):
        size += sign * 8 * ((c.__dictoffset__ not in (0, -1)) + (c.__weakrefoffset__ > 0))  # -1: it lies elsewhere
    return base if cls.__basicsize__ <= size and cls.__itemsize__ == base.__itemsize__ else None


def _find_kind(cls: type) -> Kind:
    """How objects of `cls` are taken apart."""
    if cls in _KINDS:
        return _KINDS[cls]
    if issubclass(cls, torch.Tensor):
        plain = cls.__torch_dispatch__ is torch.Tensor.__torch_dispatch__ or issubclass(cls, torch.nn.Parameter)
        return TENSOR if plain else _Refused("it is made of other tensors; give these")
    if issubclass(cls, type | types.ModuleType):
        return NAMESPACE
    if cls in _ATOMS or any(issubclass(cls, c) for c in _ATOMS if c not in _EXACT):
        return ATOM
    base = _builtin(cls)
    if base is not None:
        return _Instance(cls, base)
    if hasattr(cls, "__next__"):
        return _Refused("the first call uses it up; give a list of what it yields")
    return _Reduced(cls)


kind_of: Callable[[type], Kind] = functools.lru_cache(maxsize=1024)(_find_kind)
