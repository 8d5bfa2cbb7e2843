"""fbgemm's functions on sparse features, under their names."""

import torch
from torch import Tensor

__all__ = [
    "bounds_check_indices",
    "expand_into_jagged_permute",
    "permute_1D_sparse_data",
    "permute_2D_sparse_data",
    "split_permute_cat",
]


def permute_1D_sparse_data(
    permute: Tensor, lengths: Tensor, indices: Tensor, weights: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Segments of indices and weights in another order; see torch.ops.hpu.habana_permute_1D_sparse_data."""
    new, permuted, moved = torch.ops.hpu.habana_permute_1D_sparse_data(permute, lengths, indices, weights)
    return new, permuted, None if weights is None else moved


def permute_2D_sparse_data(
    permute: Tensor, lengths: Tensor, indices: Tensor, weights: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Features of indices and weights in another order; see torch.ops.hpu.habana_permute_2D_sparse_data."""
    new, permuted, moved = torch.ops.hpu.habana_permute_2D_sparse_data(permute, lengths, indices, weights)
    return new, permuted, None if weights is None else moved


def expand_into_jagged_permute(
    permute: Tensor, input_offsets: Tensor, output_offsets: Tensor, output_size: int
) -> Tensor:
    """Where each position of permuted segments came from."""
    return torch.ops.hpu.habana_expand_into_jagged_permute(  # type: ignore[no-any-return]
        permute, input_offsets, output_offsets, output_size
    )


def bounds_check_indices(
    rows_per_table: Tensor,
    indices: Tensor,
    offsets: Tensor,
    bounds_check_mode: int,
    warning: Tensor,
    weights: Tensor | None = None,
) -> None:
    """Indices outside of their table become 0, in place."""
    torch.ops.hpu.habana_bounds_check_indices(indices, offsets, warning, rows_per_table, bounds_check_mode, weights)


def split_permute_cat(input: Tensor, indices: Tensor, batch_size: int, num_features: int, dims: int) -> Tensor:
    """Features of `dims` columns each, in the order of `indices`."""
    return torch.ops.hpu.habana_split_permute_cat(  # type: ignore[no-any-return]
        input, indices, batch_size, num_features, dims
    )
