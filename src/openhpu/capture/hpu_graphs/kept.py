"""What can change in Python, as it was: entries, elements, attributes, names, contents. Each can be given back."""

import array
import collections
import contextlib
import ctypes
import io
import operator
import random
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch

from openhpu.capture.hpu_graphs.parts import attributes, set_attributes

ABSENT = types.SimpleNamespace()  # what was not there
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)


class Change(NamedTuple):
    """Something that is not as it was. `contents`: it is the same object, which holds something else."""

    name: str
    was: Any
    now: Any
    contents: bool = False


class Kept:
    """Something that can change, as it is when this is made."""

    changing = False  # only a comparison of contents tells whether it changed

    def same(self) -> bool:
        """Whether it is as it was."""
        raise NotImplementedError

    def changes(self) -> Iterator[Change]:
        """What is not as it was."""
        raise NotImplementedError

    def restore(self) -> None:
        """Make it what it was. Called if it is not."""
        raise NotImplementedError

    def again(self) -> None:
        """Keep what it is now."""


class Entries(Kept):
    """The entries of a dict, also of one that has an object's attributes: `owner` is that object."""

    def __init__(self, name: Callable[[Any], str], live: dict[Any, Any], owner: Any = None) -> None:
        self._name, self._live, self._owner = name, live, owner
        self._base: Any = collections.OrderedDict if isinstance(live, collections.OrderedDict) else dict
        self._kept = [*self._base.items(live)]

    def same(self) -> bool:
        if self._owner is not None and self._owner.__dict__ is not self._live:
            return False
        now = self._base.items(self._live)
        return len(now) == len(self._kept) and all(
            a[0] is b[0] and a[1] is b[1] for a, b in zip(now, self._kept, strict=True)
        )

    def changes(self) -> Iterator[Change]:
        live = self._live if self._owner is None else self._owner.__dict__
        now = dict(self._base.items(live) if live is self._live else live.items())
        was = dict(self._kept)
        for key in [*was, *(key for key in now if key not in was)]:
            yield from changed(self._name(key), self._value(was, key), self._value(now, key))

    def _value(self, entries: dict[Any, Any], key: Any) -> Any:
        """An entry, or of an attribute that the object has not, that of its class."""
        if key in entries or self._owner is None:
            return entries.get(key, ABSENT)
        found = (vars(cls)[key] for cls in type(self._owner).__mro__ if key in vars(cls))
        return next(found, ABSENT)

    def restore(self) -> None:
        if self._owner is not None and self._owner.__dict__ is not self._live:
            object.__setattr__(self._owner, "__dict__", self._live)
        now = [*self._base.items(self._live)]
        keys = len(now) == len(self._kept) and all(a[0] is b[0] for a, b in zip(now, self._kept, strict=True))
        if not keys:
            self._base.clear(self._live)
        for i, (key, value) in enumerate(self._kept):
            if not keys or now[i][1] is not value:
                self._base.__setitem__(self._live, key, value)


class Elements(Kept):
    """The elements of a list or deque."""

    def __init__(self, name: str, live: Any) -> None:
        self._name, self._live, self._kept = name, live, [*live]

    def same(self) -> bool:
        return len(self._live) == len(self._kept) and all(map(operator.is_, self._live, self._kept))

    def changes(self) -> Iterator[Change]:
        for i, (was, now) in enumerate(zip(self._kept, self._live, strict=False)):
            yield from changed(f"{self._name}[{i}]", was, now)
        yield from changed(f"len({self._name})", len(self._kept), len(self._live))

    def restore(self) -> None:
        if isinstance(self._live, list):
            list.__setitem__(self._live, slice(None), self._kept)
        else:
            collections.deque.clear(self._live)
            collections.deque.extend(self._live, self._kept)


class Members(Kept):
    """The members of a set."""

    def __init__(self, name: str, live: set[Any]) -> None:
        self._name, self._live, self._kept = name, live, {*live}

    def same(self) -> bool:
        return len(self._live) == len(self._kept) and all(member in self._kept for member in self._live)

    def changes(self) -> Iterator[Change]:
        if not self.same():
            yield Change(self._name, self._kept, self._live, contents=True)

    def restore(self) -> None:
        set.intersection_update(self._live, self._kept)
        set.update(self._live, self._kept)


class Variable(Kept):
    """A variable of a closure."""

    def __init__(self, name: str, cell: types.CellType) -> None:
        self._name, self._cell, self._kept = name, cell, _of_cell(cell)

    def same(self) -> bool:
        return _of_cell(self._cell) is self._kept

    def changes(self) -> Iterator[Change]:
        yield from changed(self._name, self._kept, _of_cell(self._cell))

    def restore(self) -> None:
        if self._kept is ABSENT:
            del self._cell.cell_contents
        else:
            self._cell.cell_contents = self._kept


class Names(Kept):
    """Some names of a module."""

    def __init__(self, owner: str, live: dict[str, Any], names: Iterable[str]) -> None:
        self._owner, self._live = owner, live
        self._kept = {name: live.get(name, ABSENT) for name in names}

    def same(self) -> bool:
        return all(self._live.get(name, ABSENT) is value for name, value in self._kept.items())

    def changes(self) -> Iterator[Change]:
        for name, was in self._kept.items():
            yield from changed(f"{self._owner}{name}", was, self._live.get(name, ABSENT))

    def restore(self) -> None:
        for name, value in self._kept.items():
            if value is ABSENT:
                self._live.pop(name, None)
            elif self._live.get(name, ABSENT) is not value:
                self._live[name] = value


class ClassAttributes(Kept):
    """The attributes of a class."""

    def __init__(self, name: str, cls: type) -> None:
        self._name, self._cls, self._kept = name, cls, dict(vars(cls))

    def same(self) -> bool:
        now = vars(self._cls)
        return len(now) == len(self._kept) and all(now.get(key, ABSENT) is v for key, v in self._kept.items())

    def changes(self) -> Iterator[Change]:
        now = vars(self._cls)
        for key in [*self._kept, *(key for key in now if key not in self._kept)]:
            yield from changed(f"{self._name}.{key}", self._kept.get(key, ABSENT), now.get(key, ABSENT))

    def restore(self) -> None:
        now = dict(vars(self._cls))
        for key, value in self._kept.items():
            if now.get(key, ABSENT) is not value:
                type.__setattr__(self._cls, key, value)
        for key in now.keys() - self._kept.keys():
            type.__delattr__(self._cls, key)


class Slots(Kept):
    """What an object holds outside of its `__dict__`."""

    def __init__(self, name: str, live: Any) -> None:
        self._name, self._live, self._kept = name, live, self._now(live)

    @staticmethod
    def _now(live: Any) -> dict[Any, Any]:
        names, values = attributes(live)
        own = getattr(live, "__dict__", {})
        return {key: value for key, value in zip(names, values, strict=True) if key not in own}

    def same(self) -> bool:
        now = self._now(self._live)
        return len(now) == len(self._kept) and all(now.get(key, ABSENT) is v for key, v in self._kept.items())

    def changes(self) -> Iterator[Change]:
        now = self._now(self._live)
        for key in {**self._kept, **now}:
            yield from changed(f"{self._name}.{key}", self._kept.get(key, ABSENT), now.get(key, ABSENT))

    def restore(self) -> None:
        all_of_it = {**getattr(self._live, "__dict__", {}), **self._kept}
        set_attributes(self._live, (*all_of_it,), [*all_of_it.values()])

    def parts(self) -> Iterator[tuple[Any, Any]]:
        """The names and what they hold."""
        yield from self._kept.items()


class Metadata(Kept):
    """Of a tensor: its memory, gradient, hooks and whether it needs a gradient; not its values."""

    def __init__(self, name: str, tensor: torch.Tensor) -> None:
        self._name, self._tensor = name, tensor
        self.again()

    def again(self) -> None:
        tensor = self._tensor
        self.version = None if tensor.is_inference() else tensor._version
        with torch.no_grad():
            self._alias = tensor.detach()
        self._layout = self._now()
        self._grad = tensor.grad if tensor.is_leaf else None
        self._hooks = None if tensor._backward_hooks is None else [*tensor._backward_hooks.items()]

    def _now(self) -> Any:
        t = self._tensor
        return t.untyped_storage()._cdata, t.storage_offset(), t.shape, t.stride(), t.dtype, t.requires_grad

    def same(self) -> bool:
        t = self._tensor
        hooks = None if t._backward_hooks is None else [*t._backward_hooks.items()]
        grad = t.grad if t.is_leaf else None
        return self._now() == self._layout and grad is self._grad and hooks == self._hooks

    def changes(self) -> Iterator[Change]:
        if self._now()[:1] != self._layout[:1]:
            yield Change("", self._alias, self._tensor)
        yield from changed(f"{self._name}.grad", self._grad, self._tensor.grad if self._tensor.is_leaf else None)

    def written(self) -> bool:
        """Whether it was written since, as far as PyTorch counts."""
        return self.version is not None and self._tensor._version != self.version

    def restore(self) -> None:
        t = self._tensor
        if self._now()[:-1] != self._layout[:-1]:
            t.data = self._alias
        if t.requires_grad != self._layout[-1]:
            t.requires_grad_(self._layout[-1])
        if t.is_leaf and t.grad is not self._grad:
            t.grad = self._grad
        if self._hooks is None:
            t._backward_hooks = None
        elif t._backward_hooks is not None and [*t._backward_hooks.items()] != self._hooks:
            t._backward_hooks.clear()
            t._backward_hooks.update(self._hooks)


class Contents(Kept):
    """What an object holds that has no Python objects in it: numbers, a state, a position."""

    changing = True

    def __init__(self, name: str, live: Any, kind: "KeptKind") -> None:
        self._name, self._live, self._kind = name, live, kind
        self.again()

    def again(self) -> None:
        self._kept = self._kind.take(self._live)

    def same(self) -> bool:
        return self._kind.same(self._kind.take(self._live), self._kept)

    def changes(self) -> Iterator[Change]:
        if not self.same():
            yield Change(self._name, self._kept, self._live, contents=True)

    def restore(self) -> None:
        self._kind.give(self._live, self._kept)


def _of_cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet assigned
        return ABSENT


def changed(name: str, was: Any, now: Any) -> Iterator[Change]:
    """The change of a value, if it is one."""
    if was is not now and not (type(was) is type(now) and isinstance(now, _PLAIN) and was == now):
        yield Change(name, was, now)


# Contents, by kind of object.


class KeptKind(NamedTuple):
    """How the contents of an object are taken and given back. `size`: in bytes."""

    take: Callable[[Any], Any]
    give: Callable[[Any, Any], None]
    same: Callable[[Any, Any], bool] = operator.eq
    size: Callable[[Any], int] = lambda _: 0


def _give_bytes(live: bytearray, kept: bytes) -> None:
    live[:] = kept


def _give_array(live: Any, kept: bytes) -> None:
    del live[:]
    live.frombytes(kept)


def _give_buffer(live: Any, kept: tuple[Any, int]) -> None:
    text, at = kept
    live.seek(0)
    live.truncate(0)
    live.write(text)
    live.seek(at)


def _give_storage(live: torch.UntypedStorage, kept: torch.UntypedStorage) -> None:
    if live.nbytes() != kept.nbytes():
        live.resize_(kept.nbytes())
    live.copy_(kept)


def _same_storage(now: torch.UntypedStorage, kept: torch.UntypedStorage) -> bool:
    if now.nbytes() != kept.nbytes():
        return False
    of_bytes = (torch.empty(0, dtype=torch.uint8).set_(each) for each in (now, kept))
    return torch.equal(*of_bytes)


def _take_numpy(live: Any) -> Any:
    import numpy

    return numpy.array(live, copy=True, subok=False)


def _give_numpy(live: Any, kept: Any) -> None:
    if live.shape != kept.shape:
        live.resize(kept.shape, refcheck=False)
    live[...] = kept


def _same_numpy(now: Any, kept: Any) -> bool:
    if now.shape != kept.shape:
        return False
    if now.dtype.hasobject:
        return all(map(operator.is_, now.ravel().tolist(), kept.ravel().tolist()))
    return bool(now.tobytes() == kept.tobytes())


def _same_state(now: Any, kept: Any) -> bool:
    """Whether two nested states of a generator of NumPy's are equal."""
    if isinstance(now, dict):
        return all(_same_state(value, kept[key]) for key, value in now.items())
    if isinstance(now, tuple):
        return all(map(_same_state, now, kept))
    return bool(now.tobytes() == kept.tobytes()) if hasattr(now, "tobytes") else bool(now == kept)


def _give_ctypes(live: Any, kept: bytes) -> None:
    ctypes.memmove(ctypes.addressof(live), kept, len(kept))


STORAGE = KeptKind(lambda storage: storage.clone(), _give_storage, _same_storage, lambda storage: storage.nbytes())
_GENERATOR = KeptKind(lambda g: g.get_state(), lambda g, state: g.set_state(state), torch.equal)
_POSITION = KeptKind(lambda file: file.tell(), lambda file, at: file.seek(at))
_KINDS: tuple[tuple[tuple[type, ...], KeptKind], ...] = (
    ((bytearray,), KeptKind(bytes, _give_bytes, size=len)),
    ((array.array,), KeptKind(lambda live: live.tobytes(), _give_array, size=lambda a: len(a) * a.itemsize)),
    ((io.StringIO, io.BytesIO), KeptKind(lambda live: (live.getvalue(), live.tell()), _give_buffer)),
    ((torch.Generator,), _GENERATOR),
    ((random.Random,), KeptKind(lambda live: live.getstate(), lambda live, state: live.setstate(state))),
    (
        (ctypes._SimpleCData, ctypes.Array, ctypes.Structure, ctypes.Union),
        KeptKind(bytes, _give_ctypes, size=ctypes.sizeof),
    ),
)


def kind_of_contents(value: Any) -> KeptKind | None:
    """How the contents of `value` are kept; None: it is no object of contents."""
    for classes, kind in _KINDS:
        if isinstance(value, classes):
            return None if isinstance(value, random.SystemRandom) else kind
    found = _kind_of_numpy(value) if "numpy" in sys.modules else None
    return position_of(value) if isinstance(value, io.IOBase) else found


def _kind_of_numpy(value: Any) -> KeptKind | None:
    import numpy

    if isinstance(value, numpy.ndarray):
        return KeptKind(_take_numpy, _give_numpy, _same_numpy, lambda live: int(live.nbytes))
    if isinstance(value, numpy.random.Generator):
        return KeptKind(
            lambda live: live.bit_generator.state,
            lambda live, state: setattr(live.bit_generator, "state", state),
            _same_state,
        )
    if isinstance(value, numpy.random.BitGenerator):
        return KeptKind(lambda live: live.state, lambda live, state: setattr(live, "state", state), _same_state)
    if isinstance(value, numpy.random.RandomState):
        return KeptKind(lambda live: live.get_state(), lambda live, state: live.set_state(state), _same_state)
    return None


def position_of(file: Any) -> KeptKind | None:
    """Of a file that is only read: its position."""
    with contextlib.suppress(OSError, ValueError):
        if not file.closed and file.readable() and not file.writable() and file.seekable():
            file.tell()
            return _POSITION
    return None
