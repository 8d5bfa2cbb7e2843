"""Nested arguments and results: their tensors, and the rest as the key of a graph."""

import dataclasses
import functools
import itertools
import operator
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch

from openhpu.capture.hpu_graphs.parts import (
    ATOM,
    LEAF,
    NAMESPACE,
    NUMBER,
    TENSOR,
    Kind,
    Parts,
    Unwalkable,
    attributes,
    kind_of,
    set_attributes,
)

_LARGE = 1 << 20  # bytes
_AGAIN = object()  # in a key: a part that occurred before
_IMMUTABLE = 1 << 8  # the flag of classes whose attributes can't be set


class Unsuitable(TypeError):
    """A part of arguments or results can't be walked. The text names its place, its type, why, and what can be."""


@dataclasses.dataclass(frozen=True)
class _Place:
    """Where a tensor stood: its number among the packed ones."""

    number: int

    def __repr__(self) -> str:
        return f"#{self.number}"


_KINDS: dict[type, Kind] = {_Place: LEAF}
_KINDS |= {
    cls: kind_of(cls)
    for cls in (type(None), bool, int, float, str, list, tuple, dict, torch.Tensor, torch.nn.Parameter, torch.dtype)
}


class Node:
    """A value and its parts, as they were at the walk."""

    __slots__ = ("kind", "parts", "rest", "value")

    def __init__(self, value: Any, kind: Kind, rest: Any, parts: Parts) -> None:
        self.value = value
        self.kind = kind
        self.rest = rest
        self.parts = parts

    def name(self, i: int) -> str:
        return f".{self.rest[i]}" if self.kind is TENSOR else self.kind.name(self.rest, self.parts, i)


class _Attributes:
    """In a key: the attributes of a class or module are these objects."""

    def __init__(self, owner: Any) -> None:
        self._names = (*vars(owner),)
        self._values = (*vars(owner).values(),)
        self._hash = hash((self._names, *map(id, self._values)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: Any) -> bool:
        return self._names == other._names and all(map(operator.is_, self._values, other._values))


class Walk:
    """The one way through nested arguments or results: it finds the tensors, makes the key and puts others in place.

    Each part is a tensor or counts in the key, or Unsuitable is raised. `tensors` has each once, in order. In the key
    tensors count by type and metadata (without `metadata` only as tensors), everything else by its value. An object
    without tensors whose class compares by identity counts as this very object, too. Classes count with their
    attributes. With `gradients` the `grad` of a tensor is a part of it. `names` are the name of `value` or, of a tuple,
    those of its parts.
    """

    def __init__(
        self, value: Any, names: str | tuple[str, ...] = "value", *, gradients: bool = False, metadata: bool = True
    ) -> None:
        self.value = value
        self.names = names
        self.tensors: list[Any] = []
        self._nodes: dict[int, Node] = {}
        self._numbers: dict[int, int] = {}  # of what occurs in the key, by id
        self._late: list[Node] = []  # it matters whether they hold a tensor
        self._owners: dict[Any, _Attributes | None] = {}
        self._gradients = gradients
        self._metadata = metadata
        key: list[Any] = []
        try:
            self._visit(value, key.append)
            for node in self._late:
                if not self._is_copied(node):
                    key.append(node.value if node.kind.by_identity else None)
                elif not node.kind.ordered:
                    raise Unwalkable(node.value, "it keeps no order of the tensors in it; give a list or a dict")
        except Unwalkable as error:
            raise Unsuitable(
                f"{self.place(error.value)} of type {_name(type(error.value))} can't be part of a graph: {error}"
            ) from None
        self._own = tuple(key)
        self.key: Hashable = (self._own, *filter(None, self._owners.values())) if self._owners else self._own

    def _visit(self, value: Any, append: Callable[[Any], None]) -> None:
        # This runs for each part in each call of a graph.
        cls = type(value)
        kind = _KINDS.get(cls) or kind_of(cls)
        if kind is ATOM or kind is NUMBER or kind is NAMESPACE:
            append(cls)
            if kind is NUMBER:
                append(value.hex() if cls is float else repr(value))
            else:
                append(value)
            if kind is NAMESPACE:
                self._note(value)
            return
        new = len(self._numbers)
        number = self._numbers.setdefault(id(value), new)
        if number != new:
            append(_AGAIN)
            append(number)
            return
        append(cls if self._metadata or kind is not TENSOR else TENSOR)
        if kind is LEAF:
            self.tensors.append(value)
            return
        if kind is TENSOR:
            self.tensors.append(value)
            if value.layout is not torch.strided or value.is_nested:
                raise Unwalkable(value, "it is a sparse or nested tensor; give the tensors that it is made of")
            if self._metadata:
                append((value.dtype, value.shape, value.stride(), value.device, value.requires_grad))
            if cls is torch.Tensor and not value.__dict__ and not self._holds_gradient(value):
                return
            rest, parts = self.apart(value)
        else:
            rest, parts = kind.apart(value)  # copyreg gives a class an attribute of its own
            if cls not in _KINDS and cls not in self._owners:
                self._note(cls)
        node = self._nodes[id(value)] = Node(value, kind, rest, parts)
        append(rest)
        if kind.by_identity or not kind.ordered:
            self._late.append(node)
        for part in parts:
            self._visit(part, append)

    def _note(self, owner: Any) -> None:
        """The attributes of a class and of its bases, or of a module, count in the key."""
        for other in owner.__mro__ if isinstance(owner, type) else (owner,):
            if other not in self._owners:
                fixed = isinstance(other, type) and other.__flags__ & _IMMUTABLE
                self._owners[other] = None if fixed else _Attributes(other)

    def apart(self, value: Any) -> tuple[Any, Parts]:
        """The rest and the parts that a value has now."""
        if not isinstance(value, torch.Tensor):
            return kind_of(type(value)).apart(value)
        names, parts = attributes(value) if value.__dict__ else ((), [])
        if self._holds_gradient(value):
            names = (*names, "grad")
            parts = [*parts, value.grad]
        return names, parts

    def _holds_gradient(self, tensor: torch.Tensor) -> bool:
        """Whether it has a `grad` that counts."""
        return self._gradients and tensor.is_leaf and tensor.grad is not None

    def nodes(self) -> list[Node]:
        """What has parts, in the order in which it was found: that of any other value of the same key."""
        return [*self._nodes.values()]

    @functools.cached_property
    def _holding(self) -> set[int]:
        """The ids of what holds a tensor: what reaches one."""
        users: dict[int, list[int]] = {}
        for i, node in self._nodes.items():
            for part in node.parts:
                users.setdefault(id(part), []).append(i)
        waiting = [*map(id, self.tensors)]
        found = {i for i in waiting if i in self._nodes}
        while waiting:
            new = {i for i in users.get(waiting.pop(), ()) if i not in found}
            found |= new
            waiting += new
        return found

    def _is_copied(self, node: Node) -> bool:
        return node.kind.copied or id(node.value) in self._holding

    def place(self, sought: Any) -> str:
        """How a script reaches a part; the name of all for what is none."""
        ways: list[tuple[Any, str]] = [(self.value, "")]
        seen = set()
        for value, way in ways:  # grows meanwhile
            if value is sought:
                if isinstance(self.names, str):
                    return self.names + way
                number, _, rest = way.removeprefix("[").partition("]")
                return self.names[int(number)] + rest if number else " and ".join(self.names)
            node = self._nodes.get(id(value))
            if node is not None and id(value) not in seen:
                seen.add(id(value))
                ways += [(part, way + node.name(i)) for i, part in enumerate(node.parts)]
        return self.place(self.value)

    def put(self, tensors: Sequence[Any], made: dict[int, Any] | None = None) -> Any:
        """The value with others in place of its tensors.

        What holds a tensor is a copy, and so are lists, dicts and the like; other objects are the same. `made` has what
        else takes the place of a part, by the part's `id`, and gets the copies.
        """
        others = {id(old): new for old, new in zip(self.tensors, tensors, strict=True)}
        return self._put(self.value, others, {} if made is None else made)

    def _put(self, value: Any, others: dict[int, Any], done: dict[int, Any]) -> Any:
        if id(value) in done:
            return done[id(value)]
        node = self._nodes.get(id(value))
        if node is None:
            return others.get(id(value), value)
        if not self._is_copied(node):
            return value
        if node.kind is TENSOR:
            new = done[id(value)] = of_type(others[id(value)], type(value))
            if new is not value:
                _set_attributes(new, node.rest, [self._put(part, others, done) for part in node.parts])
            return new
        new = node.kind.empty(value)
        if new is not None:
            done[id(value)] = new
        parts = [self._put(part, others, done) for part in node.parts]
        if new is None and id(value) in done:  # one of the parts refers to it
            return done[id(value)]
        done[id(value)] = node.kind.filled(value, new, node.rest, parts)
        return done[id(value)]

    def again(self, value: Any, **options: Any) -> "Walk":
        """The same walk through another value."""
        own: dict[str, Any] = {"gradients": self._gradients, "metadata": self._metadata}
        return Walk(value, self.names, **(own | options))

    def restore(self) -> None:
        """Give each object the parts that it had. Raises RuntimeError, with its place, for one that can't have them."""
        for node in self.nodes():
            rest, parts = self.apart(node.value)
            if node.kind.restorable and not same(node, rest, parts):
                node.kind.filled(node.value, node.value, node.rest, node.parts)
        changed = self.difference(self.again(self.value))
        if changed is not None:
            raise RuntimeError(
                f"{changed} was changed by a function that was captured and then could not run as a graph, and what it "
                "was before can't be restored. Keep it out of the arguments, or don't graph the function."
            )

    def difference(self, other: "Walk", others: bool = False) -> str | None:
        """The place where another walk differs from this one: with `others` it may have other tensors."""
        if self._own == other._own and (others or all(map(operator.is_, self.tensors, other.tensors))):
            return None
        for node, now in zip(self._nodes.values(), other._nodes.values(), strict=False):
            if type(node.value) is not type(now.value) or node.rest != now.rest or len(node.parts) != len(now.parts):
                return self.place(node.value)
            for i, (a, b) in enumerate(zip(node.parts, now.parts, strict=True)):
                apart = id(a) in self._nodes, id(b) in other._nodes
                if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
                    alike = others or a is b
                else:
                    alike = all(apart) or (not any(apart) and Walk(a).key == Walk(b).key)
                if not alike:
                    return self.place(node.value) + node.name(i)
        return self.place(self.value)


def same(node: Node, rest: Any, parts: Parts) -> bool:
    """Whether these are the node's rest and parts."""
    return rest == node.rest and len(parts) == len(node.parts) and all(map(operator.is_, parts, node.parts))


def _is_plain(kind: Kind) -> bool:
    """Whether values of it are compared as they are, not part by part."""
    return kind is ATOM or kind is NUMBER or kind is NAMESPACE or not kind.ordered


def _equal_plainly(kind: Kind, a: Any, b: Any) -> bool:
    if kind is NAMESPACE:  # one is equal to itself only
        return False
    return bool(repr(a) == repr(b) if kind is NUMBER else a == b)


def unlike(here: Any, there: Any, names: tuple[str, ...]) -> tuple[str, Any, Any] | None:
    """The first place where two values differ in more than their tensors, with what is there in both.

    Objects that are compared by identity are alike if their parts are. `names`: of the parts of the values, tuples.
    """
    waiting = [(name, a, b) for name, a, b in zip(names, here, there, strict=True)]
    seen: set[tuple[int, int]] = set()
    numbers: tuple[dict[int, int], ...] = ({}, {})
    for place, a, b in waiting:  # grows meanwhile
        tensors = isinstance(a, torch.Tensor), isinstance(b, torch.Tensor)
        if any(tensors):
            # The same tensor at one place must be the same one at all others.
            same_one = numbers[0].setdefault(id(a), len(numbers[0])) == numbers[1].setdefault(id(b), len(numbers[1]))
            if not all(tensors) or not same_one:
                return place, a, b
            if not (a.__dict__ or b.__dict__):
                continue
        if a is b or (id(a), id(b)) in seen:
            continue
        seen.add((id(a), id(b)))
        kind = kind_of(type(a))
        if type(a) is not type(b):
            return place, a, b
        if _is_plain(kind):
            if not _equal_plainly(kind, a, b):
                return place, a, b
            continue
        (rest, parts), (other_rest, other_parts) = ((attributes(t) if all(tensors) else kind.apart(t)) for t in (a, b))
        if rest != other_rest or len(parts) != len(other_parts):
            return place, a, b
        node = Node(a, kind, rest, parts)
        waiting += [(place + node.name(i), x, y) for i, (x, y) in enumerate(zip(parts, other_parts, strict=True))]
    return None


def walk_call(who: str, function: Any, args: Any, kwargs: Any, **options: Any) -> Walk:
    """The walk through the arguments of `function`, for `who`, which makes graphs."""
    try:
        return Walk((args, kwargs), ("args", "kwargs"), **options)
    except Unsuitable as error:
        raise TypeError(
            f"{who}: {getattr(function, '__qualname__', type(function).__name__)}: {error}. An argument may be a "
            "tensor on hpu, a number, a string or another plain value, or a list, tuple, dict, function or object that "
            "holds such ones."
        ) from None


def input_hash(value: Any) -> Hashable:
    """A key of nested arguments: tensors count by metadata, everything else by its value. Raises TypeError, with its
    place, for what neither counts."""
    return Walk(value).key


def copy_to(destination: Any, source: Any) -> None:
    """Copy each tensor of nested arguments into the one at its place, such as new inputs into those of a graph.

    Raises TypeError for what can't be walked, ValueError where the two have not the same number of tensors or one has
    another shape.
    """
    into, new = Walk(destination).tensors, Walk(source).tensors
    if len(into) != len(new):
        raise ValueError(f"copy_to: there are {len(new)} tensors to copy into {len(into)}; expected as many")
    for number, (static, given) in enumerate(zip(into, new, strict=True)):
        if static.shape != given.shape:
            shapes = f"{list(given.shape)}, its destination {list(static.shape)}"
            raise ValueError(f"copy_to: tensor {number} has the shape {shapes}; expected the same")
        if static is not given:
            static.copy_(given, non_blocking=True)


def context_key(training: bool) -> Hashable:
    """The state of a module that decides its operators, apart from its arguments."""
    return (
        training,
        torch.get_default_dtype(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("hpu") and torch.get_autocast_dtype("hpu"),
    )


def static_copy(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor with memory of its own, of the same strides where these don't overlap."""
    with torch.inference_mode(False), torch.no_grad():
        return of_type(tensor.clone(), type(tensor)).requires_grad_(tensor.requires_grad)


def storages_of(tensors: Sequence[torch.Tensor]) -> list[int]:
    """What tells the storages of tensors apart."""
    return [tensor.untyped_storage()._cdata for tensor in tensors]


def overlaps(tensors: Sequence[torch.Tensor], storages: list[int]) -> tuple[tuple[int, int], ...]:
    """Which of the tensors, in these storages, lie in the same memory, by pairs of their numbers."""
    if len(set(storages)) == len(storages):
        return ()
    spans = []
    for tensor in tensors:
        first = tensor.storage_offset() * tensor.itemsize
        length = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
        spans.append((first, first + length * tensor.itemsize if tensor.numel() else first))
    return tuple(
        (i, k)
        for i, k in itertools.combinations(range(len(tensors)), 2)
        if storages[i] == storages[k] and max(spans[i][0], spans[k][0]) < min(spans[i][1], spans[k][1])
    )


def large_ones(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Those of 1 MiB or more that fill a storage which no other of the tensors uses."""
    users = Counter(tensor.untyped_storage()._cdata for tensor in tensors)
    return [
        tensor
        for tensor in tensors
        if tensor.untyped_storage().nbytes() == tensor.numel() * tensor.itemsize >= _LARGE
        and not (tensor.is_conj() or tensor.is_neg())
        and users[tensor.untyped_storage()._cdata] == 1
    ]


def of_type(tensor: Any, cls: type) -> Any:
    """A tensor as one of this type."""
    return tensor if type(tensor) is cls or not isinstance(tensor, torch.Tensor) else tensor.as_subclass(cls)


def _set_attributes(tensor: Any, names: tuple[str, ...], values: Parts) -> None:
    if names and isinstance(tensor, torch.Tensor):
        if names[-1] == "grad":
            tensor.grad = values[-1]
            names, values = names[:-1], values[:-1]
        set_attributes(tensor, names, values)


def _name(cls: type) -> str:
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


class TensorPacker:
    """Takes nested arguments or results apart, a flat list of their tensors and the rest, and puts them together again.

    In the rest a place `#0`, `#1`, ... stands for each tensor. A tensor that occurs twice has one place.
    """

    def pack(self, value: Any) -> tuple[list[torch.Tensor], Any]:
        """The tensors in nested containers and objects, each once, and `value` with places for them."""
        walk = Walk(value)
        return walk.tensors, walk.put([_Place(i) for i in range(len(walk.tensors))])

    def unpack(self, tensors: Sequence[torch.Tensor], packed: Any) -> Any:
        """`packed` with these tensors in their places. Raises IndexError where there are too few."""
        walk = Walk(packed)
        return walk.put([tensors[place.number] for place in walk.tensors])
