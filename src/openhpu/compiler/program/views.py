"""Views of one storage, as the operators that a person would have written.

A recorded operand has only the places of its elements. Inductor can compute through `view`, `permute` or a slice. For
an `as_strided` it must first store the tensor. So each view is rebuilt from views and slices where that is possible.
"""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from openhpu.compiler.program.geometry import Geometry, contiguous_strides, flat


class Step(NamedTuple):
    """One call of a tensor's method; "index" is `tensor[...]`, "as_strided" counts its offset from the tensor."""

    name: str
    args: tuple[Any, ...]

    def text(self, tensor: str) -> str:
        """The call as Python source, on the expression `tensor`."""
        if self.name == "index":
            return f"{tensor}[{', '.join(map(_index_text, self.args))}]"
        args = [_text(arg) for arg in self.args]
        if self.name == "as_strided" and len(args) == 3:
            args[2] = f"{tensor}.storage_offset() + {args[2]}"
        return f"{tensor}.{self.name}({', '.join(args)})"


def _text(value: Any) -> str:
    return f"({', '.join(map(str, value))}{',' * (len(value) == 1)})" if isinstance(value, tuple) else str(value)


def _index_text(item: int | slice) -> str:
    if isinstance(item, int):
        return str(item)
    ends = ("" if end is None else str(end) for end in (item.start, item.stop))
    return ":".join(ends) + (f":{item.step}" if item.step else "")


def text(tensor: str, steps: Sequence[Step]) -> str:
    """The view that `steps` make of the expression `tensor`, as Python source; it shares the memory."""
    for step in steps:
        tensor = step.text(tensor)
    return tensor


def view_steps(base: Geometry, wanted: Geometry) -> list[Step]:
    """How to come from a tensor with geometry `base` to the one with geometry `wanted` in the same storage.

    The result has the wanted sizes, and the wanted strides where a dimension has more than one element; a view of no
    elements is a new tensor. `wanted` must lie within what `base` reaches. The tensor must really have the strides of
    `base`. Raises ValueError if no view can do it (elements that straddle those of another dtype).
    """
    if not wanted.numel:
        return [Step("new_empty", (wanted.sizes,))] + [Step("to", (wanted.dtype,))] * (base.dtype != wanted.dtype)
    steps: list[Step] = []
    if base.dtype != wanted.dtype:
        base, steps = _reinterpreted(base, wanted)
    found = _along_axes(base, wanted)
    if found is None:
        found = _by_factors(base, wanted)
    if found is None:
        offset = wanted.offset - base.offset
        found = [Step("as_strided", (wanted.sizes, wanted.strides, *([offset] if offset else [])))]
    return steps + found


def _reinterpreted(base: Geometry, wanted: Geometry) -> tuple[Geometry, list[Step]]:
    """The base as the wanted dtype: in its own shape if the elements are of one size, else as a vector."""
    size, new = base.dtype.itemsize, wanted.dtype.itemsize
    if size == new:
        return base._replace(dtype=wanted.dtype), [Step("view", (wanted.dtype,))]
    if not base.is_dense:
        raise ValueError(f"{wanted.dtype} in a {base.dtype} tensor with gaps")
    begin, end = base.span
    low, high = -(-begin // new) * new, end // new * new
    if (low - begin) % size or (high - begin) % size or high <= low:
        raise ValueError(f"{wanted.dtype} at an offset of {begin} bytes in a {base.dtype} tensor")
    steps = _to_shape(base, (base.numel,))
    if (low, high) != (begin, end):
        steps.append(Step("index", (slice((low - begin) // size, (high - begin) // size),)))
    return flat(wanted.dtype, low, high), [*steps, Step("view", (wanted.dtype,))]


def _to_shape(base: Geometry, sizes: tuple[int, ...]) -> list[Step]:
    """A dense base's memory, in its own order, as a row-major tensor of `sizes`."""
    steps = []
    if not base.is_contiguous:
        order = sorted(range(len(base.sizes)), key=lambda axis: -base.strides[axis] if base.sizes[axis] > 1 else 0)
        steps = _permuted(order)
        base = base._replace(sizes=tuple(base.sizes[axis] for axis in order))
    return steps if base.sizes == sizes else [*steps, Step("view", (sizes,))]


def _permuted(order: Sequence[int]) -> list[Step]:
    moved = [axis for axis, source in enumerate(order) if axis != source]
    if not moved:
        return []
    if len(moved) == 2:
        return [Step("t", ())] if len(order) == 2 else [Step("transpose", tuple(moved))]
    return [Step("permute", tuple(order))]


def _along_axes(base: Geometry, wanted: Geometry) -> list[Step] | None:
    """Index, permute, insert dimensions of size 1, expand; None if that does not reach `wanted`."""
    starts = _starts(base, wanted.offset - base.offset)
    if starts is None:
        return None
    by_stride = sorted((axis for axis, n in enumerate(base.sizes) if n > 1), key=lambda axis: base.strides[axis])
    index: dict[int, int | slice] = {axis: start for axis, start in starts.items()}
    axis_of: dict[int, int] = {}
    for dim, (n, stride) in enumerate(zip(wanted.sizes, wanted.strides, strict=True)):
        if n == 1 or not stride:
            continue
        below = [axis for axis in by_stride if base.strides[axis] <= stride]
        if not below or below[-1] in axis_of.values() or stride % base.strides[below[-1]]:
            return None
        axis = below[-1]
        axis_of[dim] = axis
        part = _part(base.sizes[axis], starts[axis], n, stride // base.strides[axis])
        if part is None:
            return None
        index[axis] = part
    if len(base.sizes) == len(wanted.sizes):
        for axis in set(starts) - set(axis_of) - set(axis_of.values()):  # keeps its place as a dimension of size 1
            stop = starts[axis] + 1
            index[axis] = slice(starts[axis] or None, None if stop == base.sizes[axis] else stop)
    return _assembled(base, wanted, index, axis_of)


def _part(size: int, start: int, n: int, step: int) -> slice | None:
    """The slice of `n` elements from `start` on along an axis of that size; None if the axis ends before."""
    stop = start + (n - 1) * step + 1
    if stop > size:
        return None
    if step == 1 and n == size:
        return slice(None)
    return slice(start or None, None if stop == size else stop, step if step > 1 else None)


def _starts(base: Geometry, distance: int) -> dict[int, int] | None:
    """Index along each axis (longer than 1) of the element `distance` behind the first; None if there is none."""
    starts: dict[int, int] = {}
    reach = 0
    for axis in sorted((axis for axis, n in enumerate(base.sizes) if n > 1), key=lambda axis: -base.strides[axis]):
        n, stride = base.sizes[axis], base.strides[axis]
        if not stride or (starts and n * stride > reach):  # axes that overlap: an address has several indices
            return None
        reach = stride
        starts[axis] = distance // stride
        if not 0 <= starts[axis] < n:
            return None
        distance %= stride
    return None if distance else starts


def _assembled(base: Geometry, wanted: Geometry, index: dict[int, int | slice], axis_of: dict[int, int]) -> list[Step]:
    steps = []
    items = [index.get(axis, slice(None)) for axis in range(len(base.sizes))]
    while items and items[-1] == slice(None):
        items.pop()
    if items:
        steps.append(Step("index", tuple(items)))
    kept = [axis for axis in range(len(base.sizes)) if not isinstance(index.get(axis), int)]
    order, shape = _ordered(wanted, kept, axis_of)
    steps += _permuted([kept.index(axis) for axis in order])
    unexpanded = [n if stride or n == 1 else 1 for n, stride in zip(wanted.sizes, wanted.strides, strict=True)]
    missing = len(unexpanded) - len(shape)
    leading_only = missing >= 0 and unexpanded == [1] * missing + shape
    if shape != unexpanded and not (leading_only and tuple(unexpanded) != wanted.sizes):
        steps.append(Step("view", (tuple(unexpanded),)))
    if tuple(unexpanded) != wanted.sizes:
        steps.append(Step("expand", (wanted.sizes,)))
    return steps


def _ordered(wanted: Geometry, kept: list[int], axis_of: dict[int, int]) -> tuple[list[int], list[int]]:
    """The `kept` axes in the order of the wanted dimensions, and the shape that they then have."""
    spare = [axis for axis in kept if axis not in axis_of.values()]  # of size 1
    order, shape = [], []
    for dim, n in enumerate(wanted.sizes):
        if dim in axis_of:
            order.append(axis_of[dim])
            shape.append(n)
        elif spare:
            order.append(spare.pop(0))
            shape.append(1)
    if spare:  # a view drops them later, wherever they are
        used = [axis for axis in order if axis in axis_of.values()]
        order = sorted(order + spare) if used == sorted(used) else order + spare
        shape = [next((wanted.sizes[dim] for dim in axis_of if axis_of[dim] == axis), 1) for axis in order]
    return order, shape


def _by_factors(base: Geometry, wanted: Geometry) -> list[Step] | None:
    """Split the memory of a dense base at the wanted strides, then as above; None if the strides do not nest."""
    if not base.is_dense:
        return None
    strides = [stride for _, stride in wanted.dims]
    if not strides or strides[-1] != 1:
        strides.append(1)
    if any(outer % inner or outer == inner for outer, inner in itertools.pairwise(strides)):
        return None
    count = base.numel
    distance = wanted.offset - base.offset
    rows = wanted.dims[0][0] if wanted.dims else 1
    # From the base's start; else from the view's own, whose first row may lie across the base's rows.
    for begin, length in ((0, count), (distance, rows * strides[0])):
        if length % strides[0] or begin + length > count:
            continue
        factors = [length // strides[0]] + [a // b for a, b in itertools.pairwise(strides)]
        split = Geometry(base.dtype, tuple(factors), contiguous_strides(factors), base.offset + begin)
        found = _along_axes(split, wanted)
        if found is None:
            continue
        if length == count:
            return _to_shape(base, split.sizes) + found
        part = [Step("index", (slice(begin or None, None if begin + length == count else begin + length),))]
        reshaped = [Step("view", (split.sizes,))] if len(factors) > 1 else []
        return _to_shape(base, (count,)) + part + reshaped + found
    vector = base._replace(sizes=(count,), strides=(1,))
    found = _along_axes(vector, wanted)
    return None if found is None else _to_shape(base, (count,)) + found
