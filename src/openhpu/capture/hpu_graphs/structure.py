"""Nested arguments and results: their tensors, and the rest as the key of a graph."""

from __future__ import annotations

import dataclasses
from collections import Counter, UserDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import torch

_LARGE = 1 << 20  # bytes


def tensors_of(value: Any) -> list[torch.Tensor]:
    """The tensors in nested lists, tuples, dicts and dataclasses, in order; one that occurs twice, twice."""
    found: list[torch.Tensor] = []
    map_tensors(found.append, value)
    return found


def map_tensors(function: Callable[[torch.Tensor], Any], value: Any) -> Any:
    """A copy of nested `value` with `function` applied to each tensor. What is no container is kept as it is."""
    return _map(function, torch.Tensor, value)


def _map(function: Callable[[Any], Any], leaf: type, value: Any) -> Any:
    if isinstance(value, leaf):
        return function(value)
    if isinstance(value, tuple):
        parts = [_map(function, leaf, part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, list):
        return type(value)([_map(function, leaf, part) for part in value])
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: _map(function, leaf, getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
        return dataclasses.replace(value, **fields)
    if isinstance(value, dict | UserDict):
        items = {key: _map(function, leaf, part) for key, part in value.items()}
        return items if type(value) is dict else type(value)(items)
    return value


def input_hash(value: Any) -> Hashable:
    """A key of nested arguments: tensors count by dtype, shape, strides and device, everything else by its value.

    Objects that can't be hashed count by their structure (their type and attributes, the bytes of a buffer).
    """
    seen: dict[int, int] = {}

    def key(part: Any) -> Hashable:
        if isinstance(part, torch.Tensor):
            # Arguments that are one tensor decide where the graph writes.
            place = seen.setdefault(id(part), len(seen))
            return "tensor", place, part.dtype, tuple(part.shape), part.stride(), part.device, part.requires_grad
        if isinstance(part, list | tuple):
            return type(part), tuple(map(key, part))
        if dataclasses.is_dataclass(part) and not isinstance(part, type):
            return type(part), tuple((f.name, key(getattr(part, f.name))) for f in dataclasses.fields(part))
        if isinstance(part, dict | UserDict):
            return type(part), tuple((key(name), key(item)) for name, item in part.items())
        if isinstance(part, set | frozenset):
            return type(part), frozenset(map(key, part))
        try:
            hash(part)
        except TypeError:
            return _structure(part)
        # 1, 1.0 and True are equal, but not the same argument.
        return type(part), part

    def _structure(part: Any) -> Hashable:
        try:
            view = memoryview(part)
            return type(part), view.format, view.shape, view.tobytes()
        except TypeError:
            pass
        names = getattr(part, "__dict__", None)
        if names is None:
            return type(part), repr(part)
        return type(part), tuple((name, key(item)) for name, item in names.items())

    return key(value)


def context_key(training: bool) -> Hashable:
    """The state of a module that decides its operators, apart from its arguments."""
    return (
        training,
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("hpu") and torch.get_autocast_dtype("hpu"),
    )


def static_copy(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor with memory of its own, of the same strides where these don't overlap."""
    dense = torch.empty_like(tensor, memory_format=torch.preserve_format)
    with torch.no_grad():
        dense.copy_(tensor)
    return dense.requires_grad_(tensor.requires_grad)


def copies_of(value: Any, kept: Iterable[torch.Tensor] = ()) -> Any:
    """A copy of nested `value` with a static copy of each tensor but those `kept`, which stay the same; a tensor that
    occurs twice is one there, too."""
    copies = {id(tensor): tensor for tensor in kept}

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in copies:
            copies[id(tensor)] = static_copy(tensor)
        return copies[id(tensor)]

    return map_tensors(copy, value)


def large_ones(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Those of 1 MiB or more that fill a storage which no other of the tensors uses."""
    users = Counter(tensor.untyped_storage()._cdata for tensor in distinct(tensors))
    return [
        tensor
        for tensor in distinct(tensors)
        if tensor.untyped_storage().nbytes() == tensor.numel() * tensor.itemsize >= _LARGE
        and users[tensor.untyped_storage()._cdata] == 1
    ]


def distinct(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Each tensor once, in order of first occurrence."""
    return list({id(tensor): tensor for tensor in tensors}.values())


@dataclasses.dataclass(frozen=True)
class _Place:
    """Where a tensor stood: its number among the packed ones."""

    number: int

    def __repr__(self) -> str:
        return f"#{self.number}"


class TensorPacker:
    """Takes nested arguments or results apart, a flat list of their tensors and the rest, and puts them together again.

    In the rest a place `#0`, `#1`, ... stands for each tensor. A tensor that occurs twice has one place.
    """

    def pack(self, value: Any) -> tuple[list[torch.Tensor], Any]:
        """The tensors in nested lists, tuples, dicts and dataclasses, each once, and `value` with places for them."""
        tensors: list[torch.Tensor] = []
        places: dict[int, _Place] = {}

        def place(tensor: torch.Tensor) -> _Place:
            if id(tensor) not in places:
                places[id(tensor)] = _Place(len(tensors))
                tensors.append(tensor)
            return places[id(tensor)]

        return tensors, map_tensors(place, value)

    def unpack(self, tensors: Sequence[torch.Tensor], packed: Any) -> Any:
        """`packed` with these tensors in their places. Raises IndexError where there are too few."""
        return _map(lambda part: tensors[part.number], _Place, packed)
