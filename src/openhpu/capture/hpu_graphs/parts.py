"""How a value is taken apart and put together again: a kind for each class. `structure.Walk` is the only user."""

from __future__ import annotations

import collections
import contextlib
import copy
import copyreg
import enum
import functools
import inspect
import logging
import operator
import pathlib
import sys
import threading
import types
import weakref
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, NoReturn

import torch

Parts = list[Any]
_MISSING = object()


class Unwalkable(Exception):
    """A value is of no kind that can be taken apart. The text says why, and what to give instead."""

    def __init__(self, value: Any, why: str) -> None:
        super().__init__(why)
        self.value = value


class Kind:
    """Values of one class: `rest`, which belongs in a key, and parts, which are values themselves."""

    copied = False  # a copy stands for a value without tensors as well: functions often change such values
    restorable = False  # `filled` gives a value that a function changed its parts back
    by_identity = False  # a value without tensors counts as the object that it is, beside its parts
    ordered = True  # copies of the parts come in the same order as the parts

    def apart(self, value: Any) -> tuple[Hashable, Parts]:
        """The rest and the parts of `value`."""
        raise NotImplementedError

    def empty(self, rest: Hashable) -> Any:
        """A new value without its parts, which may refer to it; None where it is made of its parts."""
        return None

    def filled(self, value: Any, new: Any, rest: Any, parts: Parts) -> Any:
        """`new` (from `empty`) with these parts; `value` is the one that they replace."""
        raise NotImplementedError

    def name(self, rest: Any, parts: Parts, i: int) -> str:
        """How a script reaches part `i`: `.mask`, `[2]`."""
        raise NotImplementedError


class _Atom(Kind):
    """Has no parts: a plain value, or an object of the process such as a class or a stream."""


class _Namespace(Kind):
    """A class or a module of Python's. Whoever holds it can see its attributes change."""


class _Number(Kind):
    """Compared by its bits: 0.0 and -0.0 differ, NaN is itself."""


class _Tensor(Kind):
    """A tensor. Its parts are the attributes that a script gave it, and its gradient if that counts."""


class _Leaf(Kind):
    """Stands for a tensor."""


class _Refused(Kind):
    def __init__(self, why: str) -> None:
        self._why = why

    def apart(self, value: Any) -> NoReturn:
        raise Unwalkable(value, self._why)


ATOM, NAMESPACE, NUMBER, TENSOR, LEAF = _Atom(), _Namespace(), _Number(), _Tensor(), _Leaf()


class Whole:
    """Its objects count as the ones that they are, and are not looked into."""


# What objects hold beside attributes, by the builtin class that they derive from.


class _Content(NamedTuple):
    take: Callable[[Any], tuple[Any, Parts]]
    new: Callable[[type, Any, Parts], Any]
    put: Callable[[Any, Any, Parts], None] | None = None  # None: `new` is given the parts
    copied: bool = False


def _pairs(parts: Parts) -> zip[tuple[Any, Any]]:
    return zip(parts[::2], parts[1::2], strict=True)


def _replace_items(cls: type) -> Callable[[Any, Any, Parts], None]:
    def put(new: Any, rest: Any, parts: Parts) -> None:
        cls.clear(new)  # type: ignore[attr-defined]
        for item in parts:
            cls.append(new, item)  # type: ignore[attr-defined]

    return put


def _replace_keys(cls: type) -> Callable[[Any, Any, Parts], None]:
    def put(new: Any, rest: Any, parts: Parts) -> None:
        cls.clear(new)  # type: ignore[attr-defined]
        for key, item in _pairs(parts):
            cls.__setitem__(new, key, item)  # type: ignore[attr-defined, index]

    return put


def _take_dict(value: Any) -> tuple[Any, Parts]:
    return dict.__len__(value), [part for pair in dict.items(value) for part in pair]


def _take_ordered(value: Any) -> tuple[Any, Parts]:
    parts = [part for pair in collections.OrderedDict.items(value) for part in pair]
    return len(parts), parts


def _take_default(value: Any) -> tuple[Any, Parts]:
    factory = vars(collections.defaultdict)["default_factory"].__get__(value)
    return dict.__len__(value), [*_take_dict(value)[1], "default_factory", factory]


def _put_default(new: Any, rest: Any, parts: Parts) -> None:
    collections.defaultdict.__init__(new, parts[-1])
    _replace_keys(dict)(new, rest, parts[:-2])


def _take_deque(value: Any) -> tuple[Any, Parts]:
    parts = [*collections.deque.__iter__(value)]
    return (len(parts), vars(collections.deque)["maxlen"].__get__(value)), parts


def _put_deque(new: Any, rest: Any, parts: Parts) -> None:
    collections.deque.__init__(new, parts, rest[1])


def _put_set(new: Any, rest: Any, parts: Parts) -> None:
    set.clear(new)
    set.update(new, parts)


def _put_bytearray(new: Any, rest: Any, parts: Parts) -> None:
    bytearray.__init__(new, rest)


def _of_value(cls: type) -> _Content:
    """An immutable one without parts."""
    return _Content(lambda value: (cls.__getnewargs__(value), []), lambda c, rest, _: cls.__new__(c, *rest))  # type: ignore[attr-defined]


def _sized(cls: type) -> Callable[[Any], tuple[Any, Parts]]:
    def take(value: Any) -> tuple[Any, Parts]:
        parts = [*cls.__iter__(value)]  # type: ignore[attr-defined]
        return len(parts), parts

    return take


def _alone(cls: type) -> Callable[[type, Any, Parts], Any]:
    return lambda c, rest, parts: cls.__new__(c)  # type: ignore[call-overload]


_CONTENTS: dict[type, _Content] = {
    list: _Content(_sized(list), _alone(list), _replace_items(list), True),
    tuple: _Content(_sized(tuple), lambda c, rest, parts: tuple.__new__(c, parts)),
    collections.OrderedDict: _Content(
        _take_ordered, _alone(collections.OrderedDict), _replace_keys(collections.OrderedDict), True
    ),
    collections.defaultdict: _Content(_take_default, _alone(collections.defaultdict), _put_default, True),
    dict: _Content(_take_dict, _alone(dict), _replace_keys(dict), True),
    collections.deque: _Content(_take_deque, _alone(collections.deque), _put_deque, True),
    set: _Content(_sized(set), _alone(set), _put_set),
    frozenset: _Content(_sized(frozenset), lambda c, rest, parts: frozenset.__new__(c, parts)),
    bytearray: _Content(lambda value: (bytes(value), []), _alone(bytearray), _put_bytearray, True),
    int: _of_value(int),
    float: _Content(lambda v: (float.hex(v), []), lambda c, rest, _: float.__new__(c, float.fromhex(rest))),
    complex: _Content(lambda v: (complex.__repr__(v), []), lambda c, rest, _: complex.__new__(c, rest)),
    str: _of_value(str),
    bytes: _of_value(bytes),
    types.SimpleNamespace: _Content(lambda _: ((), []), _alone(types.SimpleNamespace), lambda *_: None),
    object: _Content(lambda _: ((), []), _alone(object), lambda *_: None),
}
_KEYED = (dict, collections.OrderedDict, collections.defaultdict)


def _find_slots(cls: type) -> dict[str, Any]:
    """The attributes that `__slots__` of `cls` and its bases name, with their descriptors."""
    classes = [c for c in reversed(cls.__mro__) if "__slots__" in vars(c)]
    return {n: d for c in classes for n, d in vars(c).items() if isinstance(d, types.MemberDescriptorType)}


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
        if name in state:
            slot.__set__(new, state.pop(name))
        else:
            with contextlib.suppress(AttributeError):
                slot.__delete__(new)
    if state or getattr(new, "__dict__", None):
        new.__dict__.clear()
        new.__dict__.update(state)


class _Instance(Kind):
    """An object of Python's: the contents of its builtin class and its attributes. No code of its class runs."""

    restorable = True

    def __init__(self, cls: type, base: type) -> None:
        self._cls, self._base = cls, base
        self._content = _CONTENTS[base]
        self._bare = cls is base and base is not types.SimpleNamespace
        self.copied = self._content.copied
        self.by_identity = cls.__hash__ is object.__hash__
        self.restorable = self._content.put is not None
        self.ordered = base not in (set, frozenset)

    def apart(self, value: Any) -> tuple[Hashable, Parts]:
        rest, parts = self._content.take(value)
        if self._bare:
            return rest, parts
        names, values = attributes(value)
        return (rest, names), parts + values

    def empty(self, rest: Hashable) -> Any:
        return None if self._content.put is None else self._content.new(self._cls, None, [])

    def filled(self, value: Any, new: Any, rest: Any, parts: Parts) -> Any:
        names: tuple[Any, ...] = ()
        if not self._bare:
            rest, names = rest
        own = parts[: len(parts) - len(names)]
        if self._content.put is None:
            new = self._content.new(self._cls, rest, own)
        else:
            self._content.put(new, rest, own)
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
        return f"[{shown}]" if i % 2 else f".keys()[{i // 2}]"


class _Attributes(Kind):
    """An immutable builtin object that is made of its attributes."""

    def __init__(self, names: tuple[str, ...], make: Callable[..., Any], by_identity: bool = False) -> None:
        self._names, self._make, self.by_identity = names, make, by_identity

    def apart(self, value: Any) -> tuple[Hashable, Parts]:
        return (), [getattr(value, name) for name in self._names]

    def filled(self, value: Any, new: Any, rest: Any, parts: Parts) -> Any:
        return self._make(*parts)

    def name(self, rest: Any, parts: Parts, i: int) -> str:
        return f".{self._names[i]}"


class _Cell(Kind):
    """A variable of a closure."""

    restorable = True

    def apart(self, value: Any) -> tuple[Hashable, Parts]:
        try:
            return True, [value.cell_contents]
        except ValueError:  # not yet assigned
            return False, []

    def empty(self, rest: Hashable) -> Any:
        return types.CellType()

    def filled(self, value: Any, new: Any, rest: Any, parts: Parts) -> Any:
        if parts:
            new.cell_contents = parts[0]
        else:
            del new.cell_contents
        return new

    def name(self, rest: Any, parts: Parts, i: int) -> str:
        return ""


class _Same:
    """Stands for an object in a key, whether it can be hashed or not."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._value is other._value

    def __hash__(self) -> int:
        return id(self._value)


class _Function(Kind):
    """A function of Python's: its code, the variables of its closure, its defaults and attributes."""

    by_identity = True
    _PARTS = ("__defaults__", "__kwdefaults__", "__dict__")

    def apart(self, value: Any) -> tuple[Hashable, Parts]:
        cells = value.__closure__ or ()
        rest = value.__code__, value.__qualname__, _Same(value.__globals__), len(cells)
        return rest, [*cells, *(getattr(value, name) for name in self._PARTS)]

    def filled(self, value: Any, new: Any, rest: Any, parts: Parts) -> Any:
        *cells, defaults, keywords, names = parts
        new = types.FunctionType(rest[0], value.__globals__, value.__name__, defaults, tuple(cells))
        new.__kwdefaults__ = keywords
        new.__dict__.update(names)
        new.__qualname__, new.__module__, new.__doc__ = rest[1], value.__module__, value.__doc__
        return new

    def name(self, rest: Any, parts: Parts, i: int) -> str:
        closure = rest[0].co_freevars
        return f".__closure__[{closure[i]!r}]" if i < rest[3] else f".{self._PARTS[i - rest[3]]}"


class _Reference(Kind):
    """A weak reference. It refers to what takes its object's place."""

    def apart(self, value: Any) -> tuple[Hashable, Parts]:
        if value.__callback__ is not None:
            raise Unwalkable(value, "it calls a function when its object dies; give the object itself")
        found = value()
        return found is not None, [] if found is None else [found]

    def filled(self, value: Any, new: Any, rest: Any, parts: Parts) -> Any:
        return weakref.ref(parts[0]) if parts else value

    def name(self, rest: Any, parts: Parts, i: int) -> str:
        return "()"


class _Builtin(Kind):
    """A function in C: of a module, or bound to an object, which is its part."""

    def apart(self, value: Any) -> tuple[Hashable, Parts]:
        owner = value.__self__
        alone = owner is None or isinstance(owner, type | types.ModuleType)
        return (_Same(value), []) if alone else (value.__name__, [owner])

    def filled(self, value: Any, new: Any, rest: Any, parts: Parts) -> Any:
        return getattr(parts[0], rest)

    def name(self, rest: Any, parts: Parts, i: int) -> str:
        return ".__self__"


class _Proxy(Kind):
    """A read-only view of a mapping, such as `types.MappingProxyType`."""

    def apart(self, value: Any) -> tuple[Hashable, Parts]:
        return (), [value.copy()]

    def filled(self, value: Any, new: Any, rest: Any, parts: Parts) -> Any:
        return types.MappingProxyType(parts[0])

    def name(self, rest: Any, parts: Parts, i: int) -> str:
        return ""


class _Array(Kind):
    """A NumPy array: its bytes, or its elements where these are objects."""

    copied = restorable = True

    def apart(self, value: Any) -> tuple[Hashable, Parts]:
        if value.dtype.hasobject and value.dtype.kind != "O":
            raise Unwalkable(value, "its elements are objects within a structure; give these")
        elements = value.dtype.kind == "O"
        data = None if elements else value.tobytes()
        return (value.dtype, value.shape, value.strides, data), [*value.flat] if elements else []

    def filled(self, value: Any, new: Any, rest: Any, parts: Parts) -> Any:
        numpy = sys.modules["numpy"]
        if rest[3] is None:
            source = numpy.empty(len(parts), object)
            for i, part in enumerate(parts):
                source[i] = part
            source = source.reshape(rest[1])
        else:
            source = numpy.ndarray(rest[1], rest[0], rest[3])
        if new is None:
            new = numpy.empty_like(value)
        new[...] = source
        return new

    def name(self, rest: Any, parts: Parts, i: int) -> str:
        return f".flat[{i}]"


class _Scalar(Kind):
    """A number of NumPy's."""

    def apart(self, value: Any) -> tuple[Hashable, Parts]:
        return (value.dtype, value.tobytes()), []


class _View(Kind):
    """A memoryview."""

    def apart(self, value: Any) -> tuple[Hashable, Parts]:
        if not value.readonly:
            raise Unwalkable(value, "it writes to memory of another object; give bytes, a NumPy array or a tensor")
        return (value.format, value.shape, value.tobytes()), []


class _Generator(Kind):
    """A random generator. A replay draws from that of the device; of another one a graph can't."""

    restorable = True

    def apart(self, value: Any) -> tuple[Hashable, Parts]:
        return (value, None if value.device.type == "hpu" else value.get_state().numpy().tobytes()), []

    def filled(self, value: Any, new: Any, rest: Any, parts: Parts) -> Any:
        value.set_state(torch.frombuffer(bytearray(rest[1]), dtype=torch.uint8))
        return value


class _Reduced(Kind):
    """Any other object: what `__reduce_ex__` takes it apart into, of its class in C if that has one, and attributes."""

    def __init__(self, cls: type) -> None:
        self.by_identity = cls.__hash__ is object.__hash__
        self._reduce = copyreg.dispatch_table.get(cls) or _reduce_in_c(cls) or operator.methodcaller("__reduce_ex__", 4)

    def apart(self, value: Any) -> tuple[Hashable, Parts]:
        names, values = attributes(value)
        try:
            reduced = self._reduce(value)
        except Exception as error:
            raise Unwalkable(value, f"what it holds can't be seen ({error}); give the values that are needed") from None
        if isinstance(reduced, str):
            if _global(value, reduced) is not value:
                raise Unwalkable(value, "what it holds can't be seen; give the values that are needed")
            return _Same(value), []
        if len(reduced) > 5:
            raise Unwalkable(value, "it is put together by a function of its own; give the values that are needed")
        function, args, state, items, pairs = (*reduced, None, None, None)[:5]
        parts = [function, args, state, items and [*items], pairs and [*pairs]]
        return (len(reduced), names), parts + values

    def filled(self, value: Any, new: Any, rest: Any, parts: Parts) -> Any:
        function, args, state, items, pairs = parts[:5]
        if isinstance(rest, _Same):
            return value
        lists = items and iter(items), pairs and iter(pairs)
        new = copy.copy(_Reducible((function, args, state, *lists)[: rest[0]]))
        if rest[1]:
            set_attributes(new, rest[1], parts[5:])
        return new

    def name(self, rest: Any, parts: Parts, i: int) -> str:
        return f".__reduce_ex__(4)[{i}]" if i < 5 else f".{rest[1][i - 5]}"


def _reduce_in_c(cls: type) -> Callable[[Any], Any] | None:
    """How a class in C takes its objects apart, where a class of Python's that derives from it may leave things out."""
    for c in cls.__mro__[:-1]:
        for name, arguments in (("__reduce_ex__", (4,)), ("__reduce__", ())):
            found = vars(c).get(name)
            if found is not None and not isinstance(found, types.FunctionType):
                return lambda value: found(value, *arguments)
    return None


class _Reducible:
    """`copy.copy` of it is the object that `reduced` describes."""

    def __init__(self, reduced: tuple[Any, ...]) -> None:
        self._reduced = reduced

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return self._reduced


def _global(value: Any, name: str) -> Any:
    module = sys.modules.get(getattr(value, "__module__", None) or "builtins")
    try:
        return operator.attrgetter(name)(module)
    except AttributeError:
        return _MISSING


def _partial(function: Any, args: Any, keywords: Any, names: dict[str, Any]) -> Any:
    new = functools.partial(function, *args, **keywords)
    new.__dict__.update(names)
    return new


# What counts as the object that it is: it holds no tensor of a call's own, and what it does is fixed.
_ATOMS: tuple[type, ...] = (
    type(None), bool, int, str, bytes, range, type(...), type(NotImplemented), enum.Enum, Whole,
    torch.dtype, torch.layout, torch.memory_format, torch.device, torch.Size, torch.Stream, torch.Event,
    types.CodeType, types.WrapperDescriptorType, types.MethodDescriptorType,
    types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType,
    type(threading.Lock()), type(threading.RLock()), pathlib.PurePath, logging.Logger,
    type(torch.ops.aten.relu), type(torch.ops.aten.relu.default),
)  # fmt: skip
_EXACT = (type(None), bool, int, str, bytes, range)  # classes of their own may derive from these
if torch.distributed.is_available():
    from torch.distributed.device_mesh import DeviceMesh

    _ATOMS = (*_ATOMS, torch.distributed.ProcessGroup, torch.distributed.Store, DeviceMesh)

_KINDS: dict[type, Kind] = {
    float: NUMBER,
    complex: NUMBER,
    slice: _Attributes(("start", "stop", "step"), slice),
    torch.finfo: _Attributes(("dtype",), torch.finfo),
    torch.iinfo: _Attributes(("dtype",), torch.iinfo),
    types.MethodType: _Attributes(("__func__", "__self__"), types.MethodType),
    types.BuiltinFunctionType: _Builtin(),
    types.MappingProxyType: _Proxy(),
    functools.partial: _Attributes(("func", "args", "keywords", "__dict__"), _partial, by_identity=True),
    types.CellType: _Cell(),
    types.FunctionType: _Function(),
    weakref.ref: _Reference(),
    memoryview: _View(),
    torch.Generator: _Generator(),
}


def _builtin(cls: type) -> type | None:
    """The builtin class whose contents and attributes are all that an object of `cls` holds."""
    base = next(c for c in cls.__mro__ if c in _CONTENTS)
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
    numpy: Any = sys.modules.get("numpy")
    if numpy and cls is numpy.ndarray:
        return _Array()
    if numpy and issubclass(cls, numpy.dtype | numpy.ufunc):
        return ATOM
    if numpy and issubclass(cls, numpy.generic) and not issubclass(cls, numpy.void | numpy.object_):
        return _Scalar()
    base = _builtin(cls)
    if base is not None:
        return _Instance(cls, base)
    if hasattr(cls, "__next__"):
        return _Refused("the first call uses it up; give a list of what it yields")
    return _Reduced(cls)


kind_of: Callable[[type], Kind] = functools.lru_cache(maxsize=1024)(_find_kind)
