"""The arguments that a function gets at its capture, and what comes of it: its results and its changes of arguments."""

from collections.abc import Sequence
from typing import Any

import torch

from openhpu.capture.hpu_graphs.parts import Parts
from openhpu.capture.hpu_graphs.structure import Node, Unsuitable, Walk, overlaps, same, storages_of, unlike
from openhpu.capture.hpu_graphs.undone import Uncapturable

# What an argument, or a part of one, holds after the function: its number in the walk, its rest and its parts.
Change = tuple[int, Any, Parts]


class Copies:
    """The arguments at a capture: copies with other tensors, so that the function's changes can be seen."""

    def __init__(self, given: Walk, tensors: Sequence[torch.Tensor]) -> None:
        self._made: dict[int, Any] = {}  # weak references refer to some
        self.value = copied(given, tensors, self._made)
        self.before = given.again(self.value)
        self.tensors: list[torch.Tensor] = self.before.tensors  # in the order of those that they replace
        self._overlaps = [
            (i, k) for pair in overlaps(given.tensors, storages_of(given.tensors)) for i, k in (pair, pair[::-1])
        ]
        self._storages = [tensor.untyped_storage() for tensor in self.tensors]  # held, so that no other gets its place
        self._layouts = [*map(self._layout, self.tensors)]
        self._versions = [None if tensor.is_inference() else tensor._version for tensor in self.tensors]
        self._reduced = {i: Walk(n.value).key for i, n in enumerate(self.before.nodes()) if n.kind.reduced}

    def _layout(self, tensor: torch.Tensor) -> tuple[Any, ...]:
        names, parts = self.before.apart(tensor)
        place = tensor.untyped_storage()._cdata, tensor.storage_offset(), tensor.shape, tensor.stride()
        return *place, tensor.requires_grad, names, *map(id, parts)

    def written(self) -> list[int]:
        """The numbers of the tensors that the function writes to, as far as that is known."""
        now = [None if tensor.is_inference() else tensor._version for tensor in self.tensors]
        return [i for i, (a, b) in enumerate(zip(self._versions, now, strict=True)) if a is None or a != b]

    def changes(self) -> list[Change]:
        """How the function has changed arguments in another way than by writing to tensors.

        Raises Uncapturable for a change that a replay can't repeat, or after which each call would be of another kind.
        """
        written = self.written()
        for i, k in self._overlaps:
            if i in written:
                one, other = (self.before.place(self.tensors[n]) for n in (i, k))
                raise Uncapturable(f"it writes to {one}, which shares memory with {other}; give one of them as a clone")
        try:
            place = self.before.difference(self.before.again(self.value))
        except Unsuitable as error:
            raise Uncapturable(f"it changes an argument: {error}") from None
        refused = [t for t, layout in zip(self.tensors, self._layouts, strict=True) if self._layout(t) != layout]
        changes: list[Change] = []
        for number, node in enumerate(self.before.nodes() if place else ()):
            rest, parts = self.before.apart(node.value)
            if node.kind.reduced:
                refused += [node.value] if Walk(node.value).key != self._reduced[number] else []
            elif not same(node, rest, parts):
                now = Node(node.value, node.kind, rest, parts)
                after = {now.name(i): part for i, part in enumerate(parts)}
                alike = all(_alike(p, after.get(node.name(i))) for i, p in enumerate(node.parts))
                if not node.kind.restorable or node.kind.fixed(rest) != node.kind.fixed(node.rest) or not alike:
                    refused.append(node.value)
                changes.append((number, rest, parts))
        if refused or (place and not changes):
            place = self.before.place(refused[0]) if refused and len(changes) != 1 else place
            raise Uncapturable(f"it changes {place}, which a replay can't do; write to tensors in place, or return it")
        return changes


class Outcome:
    """The results of a captured function and its changes of arguments, for calls with other arguments of the kind.

    What is an argument in the results is the argument of the call. `tensors` are the other ones, which each call of
    `give` replaces. Raises Uncapturable where a replay can't renew one: on the host.
    """

    def __init__(self, copies: Copies, results: Any) -> None:
        self._changes = copies.changes()
        value = (results, [parts for *_, parts in self._changes])
        try:
            self._walk = Walk(value, ("its result", "its arguments"))
        except Unsuitable as error:
            raise Uncapturable(str(error)) from None
        for tensor in self._walk.tensors:
            if tensor.device.type != "hpu":
                raise Uncapturable(f"a result is on {tensor.device}, where a replay can't renew it; return it on hpu")
        copied(self._walk, self._walk.tensors)
        inputs = {id(tensor): i for i, tensor in enumerate(copies.tensors)}
        self._inputs = [inputs.get(id(tensor)) for tensor in self._walk.tensors]
        nodes = {id(node.value): i for i, node in enumerate(copies.before.nodes())}
        self._shared = [(node.value, nodes[id(node.value)]) for node in self._walk.nodes() if id(node.value) in nodes]
        self.tensors = [t for t, i in zip(self._walk.tensors, self._inputs, strict=True) if i is None]
        changed = {*map(id, Walk(value[1]).tensors)}
        self._left = [id(tensor) in changed for tensor in self._walk.tensors]
        self._plain = False
        self._copied = False  # the tensors that stay in arguments

    def hold(
        self, tensors: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor] | None = None, again: bool = False
    ) -> Any:
        """Hold these tensors, and `inputs` or nothing, instead of those of the capture; returns the results with them.

        `again`: each call of `give` gets the same tensors, overwritten.
        """
        given = iter(tensors)
        held = []
        for old, i in zip(self._walk.tensors, self._inputs, strict=True):
            if i is None:
                held.append(next(given))
            else:
                held.append(old.new_empty(0) if inputs is None else inputs[i])
        made: dict[int, Any] = {}
        value = self._walk.put(held, made)
        self._shared = [(made.get(id(copy), copy), number) for copy, number in self._shared]
        self._changes = [(number, rest, []) for number, rest, _ in self._changes]
        self.tensors = []
        self._plain = not self._shared and not self._changes and set(self._inputs) <= {None}
        self._walk = Walk(value[0] if self._plain else value)
        self._copied = again
        return value[0]

    def unlike(self, other: "Outcome") -> tuple[str, Any, Any] | None:
        """Where the outcome of another call of the function has another value, which is no tensor: its place, the value
        here and the one there. A result that is another argument counts, too."""
        if [change[:2] for change in self._changes] != [change[:2] for change in other._changes]:
            return "what it changes in its arguments", len(self._changes), len(other._changes)
        mine, its = (each._walk.value if not each._plain else (each._walk.value, []) for each in (self, other))
        if found := unlike(mine, its, ("its result", "its arguments")):
            return found
        return None if self._inputs == other._inputs else ("its result", "one argument", "another one")

    def give(self, given: Walk, tensors: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor] | None = None) -> Any:
        """The results of a call with the arguments `given`, which are changed, with `tensors` in them.

        `inputs` are the arguments' tensors where others took their places.
        """
        if self._plain:
            return self._walk.put(tensors)
        others = iter(tensors)
        inputs = inputs or given.tensors
        every = [next(others) if i is None else inputs[i] for i in self._inputs]
        if self._copied:
            every = [
                tensor.clone() if left and i is None else tensor
                for tensor, left, i in zip(every, self._left, self._inputs, strict=True)
            ]
        nodes = given.nodes()
        done = {id(copy): nodes[number].value for copy, number in self._shared}
        results, changes = self._walk.put(every, done)
        for (number, rest, _), parts in zip(self._changes, changes, strict=True):
            value = nodes[number].value
            nodes[number].kind.filled(value, value, rest, parts)
        return results


def copied(walk: Walk, tensors: Sequence[Any], made: dict[int, Any] | None = None) -> Any:
    """`walk.put(tensors)`. Raises Uncapturable where that is not the same but for the tensors."""
    try:
        copy = walk.put(tensors, made)
        place = walk.again(walk.value, metadata=False).difference(walk.again(copy, metadata=False), others=True)
    except Exception as error:  # of the code of any class
        raise Uncapturable(f"{walk.place(walk.value)} can't be copied ({type(error).__name__}: {error})") from error
    if place is not None:
        raise Uncapturable(f"{place} can't be copied: the copy is not the same")
    return copy


def _alike(a: Any, b: Any) -> bool:
    """Whether one may take the place of the other, or of nothing, so that later calls are of one kind."""
    return a is b or a is None or b is None or Walk(a).key == Walk(b).key
