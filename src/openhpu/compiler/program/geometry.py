"""Where the elements of a tensor lie in its storage."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch._prims_common import make_contiguous_strides_for as contiguous_strides


class Geometry(NamedTuple):
    """A tensor's place in a storage: sizes, strides and offset count elements of `dtype`."""

    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @property
    def numel(self) -> int:
        return math.prod(self.sizes)

    @property
    def dims(self) -> list[tuple[int, int]]:
        """(size, stride) of the dimensions that reach more than one address, outermost first, ties in order."""
        kept = [(n, s) for n, s in zip(self.sizes, self.strides, strict=True) if n > 1 and s]
        return sorted(kept, key=lambda dim: -dim[1])

    @property
    def span(self) -> tuple[int, int]:
        """First byte and the byte behind the last one that the tensor touches; (0, 0) if it has no elements."""
        if not self.numel:
            return (0, 0)
        last = sum((n - 1) * s for n, s in zip(self.sizes, self.strides, strict=True))
        return self.offset * self.dtype.itemsize, (self.offset + last + 1) * self.dtype.itemsize

    @property
    def is_dense(self) -> bool:
        """Whether each address of the span belongs to exactly one element."""
        expected = 1
        for n, s in reversed(self.dims):
            if s != expected:
                return False
            expected *= n
        return expected == self.numel

    @property
    def is_contiguous(self) -> bool:
        return same_strides(self.sizes, self.strides, contiguous_strides(self.sizes))

    @property
    def is_valid(self) -> bool:
        return len(self.sizes) == len(self.strides) and all(n >= 0 for n in (self.offset, *self.sizes, *self.strides))


def same_strides(sizes: Iterable[int], one: Iterable[int], other: Iterable[int]) -> bool:
    """Whether two sets of strides mean the same addresses: dimensions of size 1 do not count, nor empty tensors."""
    sizes = tuple(sizes)
    return 0 in sizes or all(n == 1 or a == b for n, a, b in zip(sizes, one, other, strict=True))


def flat(dtype: torch.dtype, begin: int, end: int) -> Geometry:
    """A vector over the bytes `begin` to `end` (both multiples of the dtype's size)."""
    return Geometry(dtype, ((end - begin) // dtype.itemsize,), (1,), begin // dtype.itemsize)
