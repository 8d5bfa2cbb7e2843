"""Sums over bags of embeddings, sparse optimizers, and the permutations of features that recommendation models need."""

import torch
from torch import Tensor

from openhpu.interface.gaudi_ops.errors import check
from openhpu.interface.gaudi_ops.registry import Arguments


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
    valid = torch.arange(indices.shape[0], device=input.device) < valid_count.reshape(-1)[0]
    rows = torch.where(valid.unsqueeze(-1), input.index_select(0, torch.where(valid, indices, 0).long()), 0.0)
    return torch.zeros(bags, input.shape[1], dtype=input.dtype, device=input.device).index_put((bag,), rows, True)


def embedding_bag_sum_bwd_out(a: Arguments) -> Tensor:
    """Into the first rows of `out` the sums of gradients for each unique index, in the order of the indices."""
    sums = embedding_bag_sum(a.input, a.indices_bwd, a.offsets_bwd, a.valid_count_bwd, a.kernel_mode)
    a.out[: sums.shape[0]].copy_(sums)
    return a.out


def _rows(indices: Tensor, valid_count: Tensor) -> tuple[Tensor, Tensor]:
    """Which entries count, and rows to read for all, 0 for those that don't."""
    valid = torch.arange(indices.shape[0], device=indices.device) < valid_count.reshape(-1)[0]
    return valid.unsqueeze(-1), torch.where(valid, indices, 0).long()


def sparse_sgd(a: Arguments) -> tuple[Tensor, Tensor]:
    """torch.optim.SGD's step for the first valid_count rows that `indices`, all different, name."""
    with torch.no_grad():
        valid, rows = _rows(a.indices, a.valid_count_tensor)
        old = a.moments_in.index_select(0, rows)
        new = a.mom * old + a.gradients
        step = a.gradients + a.mom * new if a.nesterov else new
        a.moments_in.index_put_((rows,), torch.where(valid, new - old, 0.0), True)
        a.weights_in.index_put_((rows,), torch.where(valid, -a.learning_rate.reshape(()) * step, 0.0), True)
    return a.weights_in, a.moments_in


def sparse_adagrad(a: Arguments) -> tuple[Tensor, Tensor]:
    """torch.optim.Adagrad's step (eps 1e-10) for the first valid_count rows that `indices`, all different, name."""
    with torch.no_grad():
        valid, rows = _rows(a.indices, a.valid_count_tensor)
        square = a.gradients * a.gradients
        new = a.moments_in.index_select(0, rows) + square
        step = -a.learning_rate.reshape(()) * a.gradients / (new.sqrt() + 1e-10)
        a.moments_in.index_put_((rows,), torch.where(valid, square, 0.0), True)
        a.weights_in.index_put_((rows,), torch.where(valid, step, 0.0), True)
    return a.weights_in, a.moments_in


def _permuted(permute: Tensor, lengths: Tensor, values: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Segments of `values`, as long as `lengths` says, in another order; all segments are named once."""
    order = permute.long()
    new_lengths = lengths.index_select(0, order)
    starts = lengths.cumsum(0) - lengths
    ends = new_lengths.cumsum(0)
    positions = torch.arange(values[0].shape[0], device=lengths.device)
    segment = torch.searchsorted(ends.contiguous(), positions, right=True).clamp_max(order.shape[0] - 1)
    within = positions - (ends - new_lengths).index_select(0, segment)
    source = starts.index_select(0, order.index_select(0, segment)) + within
    return new_lengths, [value.index_select(0, source.long()) for value in values]


def permute_1d(
    permute: Tensor, lengths: Tensor, indices: Tensor, weights: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Segments of indices (and weights) in the order of `permute`; `lengths`: [segments]. Source: fbgemm's operator.

    permute names each segment once, so that there are as many indices as before.
    """
    check(
        permute.shape == lengths.shape, "habana_permute_1D_sparse_data", "permute", permute,
        f"shape {list(lengths.shape)}, as lengths",
    )  # fmt: skip
    given = [indices] if weights is None else [indices, weights]
    new, values = _permuted(permute, lengths, given)
    return new, values[0], values[1] if weights is not None else torch.empty(0, device=indices.device)


def permute_1d_alone(permute: Tensor, lengths: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """`habana_permute_1D_sparse_data` of indices alone."""
    return permute_1d(permute, lengths, indices)[:2]


def permute_2d(
    permute: Tensor, lengths: Tensor, indices: Tensor, weights: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Features in the order of `permute`, [features]; `lengths`: [features, batch]. Source: fbgemm's operator."""
    check(
        lengths.dim() == 2 and permute.shape[0] == lengths.shape[0], "habana_permute_2D_sparse_data", "lengths",
        lengths, f"[{permute.shape[0]}, batch]",
    )  # fmt: skip
    batch = lengths.shape[1]
    columns = torch.arange(batch, device=permute.device)
    each = (permute.long().unsqueeze(-1) * batch + columns).reshape(-1)
    new, *values = permute_1d(each, lengths.reshape(-1), indices, weights)
    return new.reshape(lengths.shape), values[0], values[1]


def permute_2d_alone(permute: Tensor, lengths: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """`habana_permute_2D_sparse_data` of indices alone."""
    return permute_2d(permute, lengths, indices)[:2]


def expand_into_jagged_permute(
    permute: Tensor, input_offsets: Tensor, output_offsets: Tensor, output_size: int
) -> Tensor:
    """For each position of the permuted segments the position that it came from. Source: fbgemm's operator.

    permute: [segments]; offsets: [segments + 1], before and after; output_size: the last of output_offsets.
    """
    positions = torch.arange(output_size, device=permute.device, dtype=output_offsets.dtype)
    segment = torch.searchsorted(output_offsets[1:].contiguous(), positions, right=True).clamp_max(permute.shape[0] - 1)
    within = positions - output_offsets.index_select(0, segment)
    return (input_offsets.index_select(0, permute.long().index_select(0, segment)) + within).to(permute.dtype)


def bounds_check_indices(a: Arguments) -> tuple[Tensor, Tensor, Tensor]:
    """Indices outside of their table become 0, and `warning` counts them. Source: fbgemm's operator.

    offsets: [tables * batch + 1]; rows_per_table: [tables]; bounds_check_mode: 1 (warning) or 2 (ignore).
    """
    name = "habana_bounds_check_indices"
    check(a.bounds_check_mode in (1, 2), name, "bounds_check_mode", a.bounds_check_mode, "1 (warning) or 2 (ignore)")
    tables = a.rows_per_table.shape[0]
    check((a.offsets.shape[0] - 1) % tables == 0, name, "offsets", a.offsets, f"{tables} tables * batch + 1 numbers")
    batch = (a.offsets.shape[0] - 1) // tables
    table = segments(a.offsets, a.indices.shape[0]).clamp(0, tables * batch - 1) // batch
    rows = a.rows_per_table.index_select(0, table)
    bad = (a.indices < 0) | (a.indices >= rows)
    if a.bounds_check_mode == 1:
        a.warning.add_(bad.sum().to(a.warning.dtype))
    a.indices.copy_(torch.where(bad, torch.zeros_like(a.indices), a.indices))
    a.offsets.copy_(a.offsets.clamp(0, a.indices.shape[0]))
    return a.indices, a.offsets, a.warning


def split_permute_cat(input: Tensor, indices: Tensor, batch_size: int, num_features: int, dims: int) -> Tensor:
    """Features of `dims` columns each, in the order of `indices`: [batch_size, num_features * dims]."""
    check(
        input.numel() == batch_size * num_features * dims, "habana_split_permute_cat", "input", input,
        f"{batch_size} x {num_features} x {dims} numbers",
    )  # fmt: skip
    parts = input.reshape(batch_size, num_features, dims).index_select(1, indices.long())
    return parts.reshape(batch_size, -1)
