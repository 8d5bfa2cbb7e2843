"""Sums over bags of embeddings, sparse optimizers, and the permutations of features that recommendation models need."""

import torch
from torch import Tensor

from openhpu.interface.gaudi_ops import operators
from openhpu.interface.gaudi_ops.errors import check, expect


def segments(offsets: Tensor, count: int) -> Tensor:
    """The bag of each of `count` indices; bags begin at `offsets`, of which the first is 0."""
    positions = torch.arange(count, device=offsets.device)
    return torch.searchsorted(offsets.long(), positions, right=True) - 1


def embedding_bag_sum(input: Tensor, indices: Tensor, offsets: Tensor, valid_count: Tensor, kernel_mode: int) -> Tensor:
    """The sum of the rows that the indices of each bag name: [bags, D].

    input: [rows, D]; indices: [n], of which the first valid_count[0] count; offsets: [bags] or [bags + 1], where each
    bag begins (the last number may be the end). Source: torch.nn.functional.embedding_bag with mode="sum".
    """
    name = "embedding_bag_sum"
    check(input.dim() == 2, name, "input", input, "[rows, dimension]")
    check(indices.dim() == 1 and offsets.dim() == 1, name, "indices", indices, "one dimension, as offsets")
    bags = offsets.shape[0] - 1
    bag = segments(offsets, indices.shape[0]).clamp_max(bags - 1)
    valid, rows = _rows(indices, valid_count)
    values = torch.where(valid, input.index_select(0, rows), 0.0)
    return torch.zeros(bags, input.shape[1], dtype=input.dtype, device=input.device).index_put((bag,), values, True)


def embedding_bag_sum_bwd_out(a: operators.EmbeddingBagSumBwdOut) -> Tensor:
    """Into the first rows of `out` the sums of gradients for each unique index, in the order of the indices."""
    sums = embedding_bag_sum(a.input, a.indices_bwd, a.offsets_bwd, a.valid_count_bwd, a.kernel_mode)
    a.out[: sums.shape[0]].copy_(sums)
    return a.out


def _rows(indices: Tensor, valid_count: Tensor) -> tuple[Tensor, Tensor]:
    """Which entries count, and rows to read for all, 0 for those that don't."""
    valid = torch.arange(indices.shape[0], device=indices.device) < valid_count.reshape(-1)[0]
    return valid.unsqueeze(-1), torch.where(valid, indices, 0).long()


def sparse_sgd(a: operators.SparseSgd) -> tuple[Tensor, Tensor]:
    """torch.optim.SGD's step for the first valid_count rows that `indices`, all different, name."""
    with torch.no_grad():
        valid, rows = _rows(a.indices, a.valid_count_tensor)
        old = a.moments_in.index_select(0, rows)
        new = a.mom * old + a.gradients
        step = a.gradients + a.mom * new if a.nesterov else new
        a.moments_in.index_put_((rows,), torch.where(valid, new - old, 0.0), True)
        a.weights_in.index_put_((rows,), torch.where(valid, -a.learning_rate.reshape(()) * step, 0.0), True)
    return a.weights_in, a.moments_in


def sparse_adagrad(a: operators.SparseAdagrad) -> tuple[Tensor, Tensor]:
    """torch.optim.Adagrad's step (eps 1e-10) for the first valid_count rows that `indices`, all different, name."""
    with torch.no_grad():
        valid, rows = _rows(a.indices, a.valid_count_tensor)
        square = a.gradients * a.gradients
        new = a.moments_in.index_select(0, rows) + square
        step = -a.learning_rate.reshape(()) * a.gradients / (new.sqrt() + 1e-10)
        a.moments_in.index_put_((rows,), torch.where(valid, square, 0.0), True)
        a.weights_in.index_put_((rows,), torch.where(valid, step, 0.0), True)
    return a.weights_in, a.moments_in


def _permuted(order: Tensor, lengths: Tensor, indices: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Segments of indices and weights, as long as `lengths` says, in another order; all segments are named once."""
    order = order.long()
    new_lengths = lengths.index_select(0, order)
    starts = lengths.cumsum(0) - lengths
    ends = new_lengths.cumsum(0)
    positions = torch.arange(indices.shape[0], device=lengths.device)
    segment = torch.searchsorted(ends.contiguous(), positions, right=True).clamp_max(order.shape[0] - 1)
    within = positions - (ends - new_lengths).index_select(0, segment)
    source = (starts.index_select(0, order.index_select(0, segment)) + within).long()
    moved = torch.empty(0, device=indices.device) if weights is None else weights.index_select(0, source)
    return new_lengths, indices.index_select(0, source), moved


def permute_1d(a: operators.Permute1d) -> tuple[Tensor, Tensor, Tensor]:
    """Segments of indices (and weights) in the order of `permute`; `lengths`: [segments]. Source: fbgemm's operator.

    permute names each segment once, so that there are as many indices as before.
    """
    fits, expected = a.permute.shape == a.lengths.shape, f"shape {list(a.lengths.shape)}, as lengths"
    check(fits, "habana_permute_1D_sparse_data", "permute", a.permute, expected)
    return _permuted(a.permute, a.lengths, a.indices, a.weights)


def permute_2d(a: operators.Permute2d) -> tuple[Tensor, Tensor, Tensor]:
    """Features in the order of `permute`, [features]; `lengths`: [features, batch]. Source: fbgemm's operator."""
    fits = a.lengths.dim() == 2 and a.permute.shape[0] == a.lengths.shape[0]
    check(fits, "habana_permute_2D_sparse_data", "lengths", a.lengths, f"[{a.permute.shape[0]}, batch]")
    batch = a.lengths.shape[1]
    columns = torch.arange(batch, device=a.permute.device)
    each = (a.permute.long().unsqueeze(-1) * batch + columns).reshape(-1)
    new, indices, weights = _permuted(each, a.lengths.reshape(-1), a.indices, a.weights)
    return new.reshape(a.lengths.shape), indices, weights


def expand_into_jagged_permute(a: operators.ExpandIntoJaggedPermute) -> Tensor:
    """For each position of the permuted segments the position that it came from. Source: fbgemm's operator.

    permute: [segments]; offsets: [segments + 1], before and after; output_size: the last of output_offsets.
    """
    permute, ends = a.permute, a.output_offsets[1:].contiguous()
    positions = torch.arange(a.output_size, device=permute.device, dtype=ends.dtype)
    segment = torch.searchsorted(ends, positions, right=True).clamp_max(permute.shape[0] - 1)
    within = positions - a.output_offsets.index_select(0, segment)
    return (a.input_offsets.index_select(0, permute.long().index_select(0, segment)) + within).to(permute.dtype)


def bounds_check_indices(a: operators.BoundsCheckIndices) -> tuple[Tensor, Tensor, Tensor]:
    """Indices outside of their table become 0, and `warning` counts them. Source: fbgemm's operator.

    offsets: [tables * batch + 1]; rows_per_table: [tables]; bounds_check_mode: 1 (warning) or 2 (ignore).
    """
    expect(a, "bounds_check_mode", a.bounds_check_mode in (1, 2), "1 (warning) or 2 (ignore)")
    tables = a.rows_per_table.shape[0]
    expect(a, "offsets", (a.offsets.shape[0] - 1) % tables == 0, f"{tables} tables * batch + 1 numbers")
    batch = (a.offsets.shape[0] - 1) // tables
    table = segments(a.offsets, a.indices.shape[0]).clamp(0, tables * batch - 1) // batch
    rows = a.rows_per_table.index_select(0, table)
    bad = (a.indices < 0) | (a.indices >= rows)
    if a.bounds_check_mode == 1:
        a.warning.add_(bad.sum().to(a.warning.dtype))
    a.indices.copy_(torch.where(bad, torch.zeros_like(a.indices), a.indices))
    a.offsets.copy_(a.offsets.clamp(0, a.indices.shape[0]))
    return a.indices, a.offsets, a.warning


def split_permute_cat(a: operators.SplitPermuteCat) -> Tensor:
    """Features of `dims` columns each, in the order of `indices`: [batch_size, num_features * dims]."""
    batch, features, dims = a.batch_size, a.num_features, a.dims
    expect(a, "input", a.input.numel() == batch * features * dims, f"{batch} x {features} x {dims} numbers")
    return a.input.reshape(batch, features, dims).index_select(1, a.indices.long()).reshape(batch, -1)
