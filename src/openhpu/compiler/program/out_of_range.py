"""Indices out of range in recipes: a read gives zeros, a write is dropped, and both are counted (docs/indices.md).

Each operator is traced as operators whose indices are all valid. A read at a missing row gets zeros. A write there gets
the index `ABSENT`, and generated code does not write at a negative index (`dropped_stores`). A library's kernel that
writes gets one more row, which is cut off again.

A recipe also returns how many indices of each node were out of range.
"""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

aten = torch.ops.aten

# Negative, and still so when the size of a dimension is added to it.
ABSENT = -(2**62)

_library = torch.library.Library("openhpu_compiler", "FRAGMENT")
_library.define("existing(Tensor index, Tensor missing) -> Tensor")
_library.impl("existing", lambda index, missing: index.masked_fill(missing, ABSENT), "CompositeExplicitAutograd")
_library.define("scatter(Tensor self, int dim, Tensor index, Tensor src) -> Tensor")


class _Counts:
    """One number for each tensor of indices: how many were out of range, and 2**32 times how many of these were -1.
    And one for each result in int64: how many of its elements wrapped to 32 bits (`small_integers`)."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.node = -1  # that is being traced
        self.missing: list[tuple[int, Tensor]] = []  # with the node
        self.overflowing: list[tuple[int, Tensor]] = []


counts = _Counts()  # of the program that is being traced, of which there is one at a time


def _missing(index: Tensor, size: int, wraps: bool = False) -> tuple[Tensor, Tensor]:
    """The indices as int64, and which of them are out of range. `wraps`: negative ones count from the end."""
    index = index.to(torch.int64)
    missing = (index < (-size if wraps else 0)) | (index >= size)
    padding = (missing & (index == -1)).to(torch.int64)
    counts.missing.append((counts.node, (missing.to(torch.int64) + padding * 2**32).sum()))
    return index, missing


@torch.library.impl(_library, "scatter", "CompositeExplicitAutograd")
def _scatter(self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    wide = _with_row(self, dim)
    index = index.masked_fill(index < 0, self.shape[dim])
    return wide.scatter(dim, index, src).narrow(dim, 0, self.shape[dim]).contiguous()


def _is(size: Any, *values: int) -> bool:
    """Whether it is known to be one of these: nothing is asked of a size that is left open."""
    return isinstance(size, int) and size in values


def _dim(x: Tensor, dim: int) -> int:
    return dim % max(x.dim(), 1)


def _with_row(x: Tensor, dim: int) -> Tensor:
    """A copy with a row more at the end."""
    return torch.cat([x, x.new_zeros([1 if d == dim else n for d, n in enumerate(x.shape)])], dim)


def _readable(x: Tensor, dims: Sequence[int]) -> Tensor:
    """Zeros to read from in the place of a dimension without elements."""
    if not any(_is(x.shape[dim], 0) for dim in dims):
        return x
    return x.new_zeros(()).expand([1 if d in dims and _is(n, 0) else n for d, n in enumerate(x.shape)])


# Reads.


def index_select(self: Tensor, dim: int, index: Tensor) -> Tensor:
    if self.dim() == 0:
        return index_select(self.unsqueeze(0), 0, index).reshape(())
    dim = _dim(self, dim)
    index, missing = _missing(index.reshape(-1), self.shape[dim])
    rows = aten._unsafe_index.Tensor(_readable(self, [dim]), [*[None] * dim, index.masked_fill(missing, 0)])
    return rows.masked_fill(missing.view(-1, *[1] * (self.dim() - dim - 1)), 0)


def gather(self: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    if self.dim() == 0:
        return gather(self.unsqueeze(0), 0, index.reshape(-1)).reshape(index.shape)
    if index.dim() == 0:
        return gather(self, 0, index.unsqueeze(0)).squeeze(0)
    dim = _dim(self, dim)
    index, missing = _missing(index, self.shape[dim])
    return aten.gather.default(_readable(self, [dim]), dim, index.masked_fill(missing, 0)).masked_fill(missing, 0)


def _is_mask(index: Tensor | None) -> bool:
    return index is not None and index.dtype in (torch.bool, torch.uint8)


class _Place(NamedTuple):
    number: int
    dim: int
    values: Tensor


def _places(indices: Sequence[Tensor | None]) -> list[_Place]:
    """The indices that are no masks, each with its number and the dimension that it is for."""
    found = []
    dim = 0
    for number, index in enumerate(indices):
        if index is not None and not _is_mask(index):
            found.append(_Place(number, dim, index))
        dim += index.dim() if index is not None and _is_mask(index) else 1
    return found


def index(self: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    places = _places(indices)
    if any(map(_is_mask, indices)) or not places:
        return aten.index.Tensor(self, indices)
    safe = list(indices)
    anywhere = []
    for number, dim, index in places:
        existing, missing = _missing(index, self.shape[dim], wraps=True)
        safe[number] = existing.masked_fill(missing, 0)
        anywhere.append(missing)
    result = aten._unsafe_index.Tensor(_readable(self, [place.dim for place in places]), safe)
    first = places[0].dim
    adjacent = places[-1].dim - first + 1 == len(places)
    after = self.dim() - len(places) - (first if adjacent else 0)
    everywhere = functools.reduce(operator.or_, anywhere)
    return result.masked_fill(everywhere.view(*everywhere.shape, *[1] * after), 0)


# Writes. Each changes `self`, which is a copy of it where the operator is not one in place.

WriteAt = Callable[[Tensor, Tensor], Tensor]  # of a tensor and indices
Scatter = Callable[[Tensor, int, Tensor, Tensor], Tensor]  # of a tensor, a dimension, indices and values


def _adds_exactly(dtype: torch.dtype) -> bool:
    """Whether generated code adds at an index; Inductor leaves other dtypes to a library."""
    return dtype not in (torch.int64, torch.bool)


def _widely(self: Tensor, dim: int, index: Tensor, write: WriteAt, wraps: bool = False) -> Tensor:
    """`write(self, index)` with one more row, for indices out of range."""
    index, missing = _missing(index, self.shape[dim], wraps)
    written = write(_with_row(self, dim), _last_row(index, missing, self.shape[dim]))
    return self.copy_(written.narrow(dim, 0, self.shape[dim]))


def _last_row(index: Tensor, missing: Tensor, size: int) -> Tensor:
    """Indices of a dimension that has a row more: that for the missing ones. Negative ones keep their meaning."""
    return torch.where(missing, size, torch.where(index < 0, index + size, index))


def index_put_(
    self: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False, unsafe: bool = False
) -> Tensor:
    places = _places(indices)
    given = list(indices)
    masked = any(map(_is_mask, indices))
    # Inductor leaves out the index of a dimension of size 1.
    left_out = any(_is(self.shape[place.dim], 0, 1) for place in places)
    added_elsewhere = accumulate and not _adds_exactly(self.dtype)
    if not masked and not left_out and not added_elsewhere:
        for number, dim, index in places:
            given[number] = _existing_of(index, self.shape[dim], wraps=True)
        return aten.index_put_.default(self, given, values.to(self.dtype), accumulate)
    wide = self
    for number, dim, index in places:
        wrapped, missing = _missing(index, self.shape[dim], wraps=True)
        given[number] = _last_row(wrapped, missing, self.shape[dim])
        wide = _with_row(wide, dim)
    written = aten.index_put.default(wide, given, values, accumulate)
    for place in places:
        written = written.narrow(place.dim, 0, self.shape[place.dim])
    return self.copy_(written)


def _existing_of(index: Tensor, size: int, wraps: bool = False) -> Tensor:
    index, missing = _missing(index, size, wraps)
    return torch.ops.openhpu_compiler.existing.default(index, missing)  # type: ignore[no-any-return]


def _write_rows(self: Tensor, dim: int, index: Tensor, source: Tensor, accumulate: bool, wraps: bool = False) -> Tensor:
    if self.dim() == 0:
        self.unsqueeze(0).copy_(_write_rows(self.reshape(1).clone(), 0, index, source, accumulate, wraps))
        return self
    dim = _dim(self, dim)
    index = index.reshape(-1)
    if source.dim() == 0 and not wraps:
        source = source.reshape(1)
    before = [None] * dim

    def put(x: Tensor, at: Tensor) -> Tensor:
        return aten.index_put.default(x, [*before, at], source, accumulate)

    if _is(self.shape[dim], 0, 1) or (accumulate and not _adds_exactly(self.dtype)):
        return _widely(self, dim, index, put, wraps)
    return aten.index_put_.default(self, [*before, _existing_of(index, self.shape[dim], wraps)], source, accumulate)


def index_copy_(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return _write_rows(self, dim, index, source, accumulate=False)


def index_add_(self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    scaled = source if isinstance(alpha, int) and alpha == 1 else (source * alpha).to(source.dtype)
    return _write_rows(self, dim, index, scaled, accumulate=True)


def index_fill_(self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        value = torch.scalar_tensor(value, dtype=self.dtype)
    return _write_rows(self, dim, index, value.to(self.dtype), accumulate=False, wraps=True)


def index_reduce_(
    self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    if self.dim() == 0:
        one = index_reduce_(self.reshape(1).clone(), 0, index, source.reshape(1), reduce, include_self=include_self)
        return self.copy_(one.reshape(()))
    dim = _dim(self, dim)
    index = index.reshape(-1)
    rows = source.reshape(1) if source.dim() == 0 else source

    def write(x: Tensor, at: Tensor) -> Tensor:
        return aten.index_reduce.default(x, dim, at, rows, reduce, include_self=include_self)

    return _widely(self, dim, index, write)


def scatter_(self: Tensor, dim: int, index: Tensor, src: Any, *, reduce: str | None = None) -> Tensor:
    if reduce is not None:
        kind = {"add": "sum", "multiply": "prod"}.get(reduce, reduce)
        return _scattered(self, dim, index, src, lambda x, d, i, s: aten.scatter_reduce.two(x, d, i, s, kind))
    return _scattered(self, dim, index, src, aten.scatter.src, generated=True)


def scatter_add_(self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    return _scattered(self, dim, index, src, aten.scatter_add.default)


def scatter_reduce_(
    self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    write = functools.partial(aten.scatter_reduce.two, reduce=reduce, include_self=include_self)
    return _scattered(self, dim, index, src, write)


def _scattered(self: Tensor, dim: int, index: Tensor, src: Any, write: Scatter, generated: bool = False) -> Tensor:
    """`generated`: Inductor generates code that writes at an index."""
    if self.dim() == 0:
        one = _scattered(self.reshape(1).clone(), 0, index, src, write, generated)
        return self.copy_(one.reshape(()))
    dim = _dim(self, dim)
    index = index.reshape(1) if index.dim() == 0 else index
    if not isinstance(src, Tensor):
        src = torch.scalar_tensor(src, dtype=self.dtype).expand(index.shape)
    elif src.dim() == 0:
        src = src.reshape(1)
    if generated and not _is(self.shape[dim], 0, 1):
        existing = _existing_of(index, self.shape[dim])
        return self.copy_(torch.ops.openhpu_compiler.scatter.default(self, dim, existing, src))
    return _widely(self, dim, index, lambda x, at: write(x, dim, at, src))


def embedding_dense_backward(grad: Tensor, indices: Tensor, num_weights: int, *others: Any) -> Tensor:
    _missing(indices, num_weights)  # it leaves them out by itself
    return aten.embedding_dense_backward.default(grad, indices, num_weights, *others)


def embedding_renorm_(self: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    return _widely(self, 0, indices, lambda x, at: aten.embedding_renorm_.default(x, at, max_norm, norm_type))


def _returned(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """With `out=`."""

    def call(*arguments: Any, out: Tensor | None = None, **options: Any) -> Tensor:
        result = function(*arguments, **options)
        return result if out is None else out.copy_(result)

    return call


def _of_copy(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The operator that is not in place."""
    return _returned(lambda self, *others, **options: function(self.clone(), *others, **options))


_IN_PLACE = (
    index_copy_,
    index_add_,
    index_reduce_,
    index_fill_,
    index_put_,
    scatter_,
    scatter_add_,
    scatter_reduce_,
    embedding_renorm_,
)

# By operator, without its overload. Each has the arguments of the operator.
FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    **{f"aten::{function.__name__}": _returned(function) for function in (index_select, gather, index)},
    **{f"aten::{function.__name__}": function for function in _IN_PLACE},
    **{f"aten::{function.__name__[:-1]}": _of_copy(function) for function in _IN_PLACE},
    "aten::_index_put_impl_": index_put_,
    "aten::embedding_dense_backward": _returned(embedding_dense_backward),
}
