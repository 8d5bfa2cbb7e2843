"""Operators that take indices, and what they give where these are out of range (docs/indices.md).

That is computed on the CPU: a row of zeros is added to the indexed dimension, indices out of range mean that row, and
it is cut off again.
"""

import torch

FAR = torch.iinfo(torch.int64)
BAD = [-1, 5, 6, -6, FAR.max, FAR.min, 2**31, 2**32 + 1, -(2**32)]


def rows(generator, *size, dtype=torch.float32):
    values = torch.rand(size, generator=generator) * 20 - 8
    return values.to(dtype) if dtype != torch.bool else values > 0


def padded(function, wraps=False):
    """`function(x, dim, index, *others)` of the CPU with a row of zeros for what is out of range."""

    def call(x, dim, index, *others):
        index = index.long()
        size = x.shape[dim]
        bad = (index < (-size if wraps else 0)) | (index >= size)
        positive = torch.where(index < 0, index + size, index) if wraps else index
        x = torch.cat([x, torch.zeros_like(x.narrow(dim, 0, 1) if size else x.new_zeros(with_one(x.shape, dim)))], dim)
        result = function(x, dim, torch.where(bad, size, positive), *others)
        return result.narrow(dim, 0, size) if function.__name__ in WRITES else result

    return call


def with_one(shape, dim):
    return [1 if d == dim % len(shape) else n for d, n in enumerate(shape)]


def index_select(x, dim, index):
    return x.index_select(dim, index)


def gather(x, dim, index):
    return x.gather(dim, index)


def index_copy(x, dim, index, source):
    return x.index_copy(dim, index, source)


def index_add(x, dim, index, source):
    return x.index_add(dim, index, source)


def index_add_alpha(x, dim, index, source):
    return x.index_add(dim, index, source, alpha=2)


def index_reduce(x, dim, index, source):
    return x.index_reduce(dim, index, source, "prod")


def index_reduce_without_self(x, dim, index, source):
    return x.index_reduce(dim, index, source, "amax", include_self=False)


def scatter(x, dim, index, source):
    return x.scatter(dim, index, source)


def scatter_value(x, dim, index, source):
    return x.scatter(dim, index, 3)


def scatter_add(x, dim, index, source):
    return x.scatter_add(dim, index, source)


def scatter_multiply(x, dim, index, source):
    return x.scatter(dim, index, source, reduce="multiply")


def scatter_reduce(x, dim, index, source):
    return x.scatter_reduce(dim, index, source, "amin")


def scatter_mean(x, dim, index, source):
    return x.scatter_reduce(dim, index, source, "mean", include_self=False)


def index_fill(x, dim, index, source):
    return x.index_fill(dim, index, 7)


def index(x, dim, index):
    return torch.ops.aten.index.Tensor(x, [None] * dim + [index])


def index_put(x, dim, index, source):
    return torch.ops.aten.index_put.default(x, [None] * dim + [index], source)


def index_put_accumulate(x, dim, index, source):
    return torch.ops.aten.index_put.default(x, [None] * dim + [index], source, True)


BY_ROW = [index_copy, index_add, index_add_alpha, index_reduce, index_reduce_without_self, index_fill]
PUTS = [index_put, index_put_accumulate]
BY_ELEMENT = [scatter, scatter_value, scatter_add, scatter_multiply, scatter_reduce, scatter_mean]
WRITES = {f.__name__ for f in [*BY_ROW, *PUTS, *BY_ELEMENT]}
WRAPS = {"index", "index_put", "index_put_accumulate", "index_fill"}


def operands(function, dim, dtype=torch.float32, index_dtype=torch.int64, bad=(-1, 9)):
    """x of 4 x 5 x 6, an index of which a part is out of range, and a source where the function writes."""
    generator = torch.Generator().manual_seed(3)
    x = rows(generator, 4, 5, 6, dtype=dtype)
    size = x.shape[dim]
    if function in (gather, *BY_ELEMENT):
        shape = with_one(x.shape, dim)
        shape[dim] = 3  # no index twice in a line, so that the order of writes is no matter
        index = torch.rand(*with_one(x.shape, dim)[:dim], size, *x.shape[dim + 1 :], generator=generator).argsort(dim)
        index = index.narrow(dim, 0, 3).contiguous()
        flat = index.view(-1)
        for k, value in enumerate(bad):
            flat[5 * k + 1] = value
        source_shape = index.shape
    else:
        index = torch.tensor([size - 1, *bad, 0], dtype=torch.int64)
        source_shape = [index.numel() if d == dim else n for d, n in enumerate(x.shape)]
    index = index.to(index_dtype)
    return (
        (x, dim, index)
        if function.__name__ not in WRITES
        else (x, dim, index, rows(generator, *source_shape, dtype=dtype))
    )


EVERY = [index_select, gather, index, *BY_ROW, *PUTS, *BY_ELEMENT]
