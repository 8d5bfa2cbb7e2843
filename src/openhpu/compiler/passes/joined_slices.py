"""Writes into slices of one tensor, one after another, become parts of one concatenation.

In a functional program a write into a view is a new tensor of the whole, with the slice replaced. Inductor computes
each of these whole tensors. Gradients that are copied into a bucket, 58 slices of one tensor of 3 MB, took 27 times as
long as the copies themselves.
"""

import bisect
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node

aten = torch.ops.aten
_LEAST = 3  # writes; Inductor does well with fewer


@dataclass
class _Parts:
    """The contents of a tensor along one dimension: the base, and over it the written values."""

    base: Node
    dim: int
    size: int
    writes: int = 0
    written: list[tuple[int, int, Node]] = field(default_factory=list)  # begin, end, value; in order, disjoint

    def with_write(self, begin: int, end: int, value: Node) -> "_Parts | None":
        """The same after a write; None where it covers a part of an earlier one."""
        kept = []
        for other in self.written:
            if other[1] <= begin or other[0] >= end:
                kept.append(other)
            elif not (begin <= other[0] and other[1] <= end):
                return None
        bisect.insort(kept, (begin, end, value), key=lambda part: part[0])
        return _Parts(self.base, self.dim, self.size, self.writes + 1, kept)

    def value_of(self, begin: int, end: int) -> Node | None:
        """The contents there: a written value, the base, or (None) a mixture."""
        for low, high, value in self.written:
            if (low, high) == (begin, end):
                return value
            if low < end and begin < high:
                return None
        return self.base


def joined_slices(graph: GraphModule) -> None:
    """Replace chains of `slice_scatter` on one tensor, and reads of their results."""
    parts: dict[Node, _Parts] = {}
    graph.graph.eliminate_dead_code()  # views that nobody reads
    for node in list(graph.graph.nodes):
        if node.target is aten.slice_scatter.default:
            found = _after_write(node, parts)
            if found is not None:
                parts[node] = found
        elif node.target is aten.slice.Tensor and node.args[0] in parts:
            _read(node, parts[node.args[0]])
    for node in reversed(list(graph.graph.nodes)):
        if node in parts:
            if node.users and parts[node].writes >= _LEAST:
                _join(graph, node, parts[node])
            if not node.users:
                graph.graph.erase_node(node)


def _bounds(node: Node, first: int) -> tuple[int, int, int, int] | None:
    """Dimension, begin, end and its size, of a slice whose arguments begin at `first`; None if they are no numbers."""
    tensor = node.args[0]
    value = tensor.meta.get("val") if isinstance(tensor, Node) else None
    if value is None:
        return None
    given: list[Any] = [0, None, None, 1]
    given[: len(node.args) - first] = node.args[first:]
    dim, begin, end, step = given
    size = value.shape[dim]
    if step != 1 or type(size) is not int or not all(end is None or type(end) is int for end in (begin, end)):
        return None
    begin, end, _ = slice(begin, end).indices(size)
    return dim % value.dim(), begin, max(begin, end), size


def _after_write(node: Node, parts: dict[Node, _Parts]) -> _Parts | None:
    base, value = node.args[0], node.args[1]
    bounds = _bounds(node, 2)
    if bounds is None or not isinstance(base, Node) or not isinstance(value, Node):
        return None
    dim, begin, end, size = bounds
    before = parts.get(base)
    if before is None or before.dim != dim:
        before = _Parts(base, dim, size)
    return before.with_write(begin, end, value) or _Parts(base, dim, size).with_write(begin, end, value)


def _read(node: Node, parts: _Parts) -> None:
    bounds = _bounds(node, 1)
    if bounds is None or bounds[0] != parts.dim:
        return
    value = parts.value_of(bounds[1], bounds[2])
    if value is parts.base:
        node.replace_input_with(node.args[0], parts.base)  # type: ignore[arg-type]
    elif value is not None and _same_layout(node, value):
        node.replace_all_uses_with(value)


def _same_layout(node: Node, value: Node) -> bool:
    """Views of the one are views of the other."""
    a, b = node.meta.get("val"), value.meta.get("val")
    return a is not None and b is not None and a.shape == b.shape and a.stride() == b.stride() and a.dtype == b.dtype


def _join(graph: GraphModule, node: Node, parts: _Parts) -> None:
    pieces = []
    with graph.graph.inserting_before(node):

        def kept(begin: int, end: int) -> None:
            if begin < end:
                piece = graph.graph.call_function(aten.slice.Tensor, (parts.base, parts.dim, begin, end))
                base = parts.base.meta["val"]
                piece.meta["val"] = base.narrow(parts.dim, begin, end - begin)
                pieces.append(piece)

        reached = 0
        for begin, end, value in parts.written:
            kept(reached, begin)
            if begin < end:
                pieces.append(value)
            reached = end
        kept(reached, parts.size)
        whole = graph.graph.call_function(aten.cat.default, (pieces, parts.dim))
        whole.meta = dict(node.meta)
    node.replace_all_uses_with(whole)
