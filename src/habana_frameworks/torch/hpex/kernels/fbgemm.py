"""fbgemm's functions on sparse features."""

from openhpu.interface.hpex.sparse_features import (
    bounds_check_indices as bounds_check_indices,
    expand_into_jagged_permute as expand_into_jagged_permute,
    permute_1D_sparse_data as permute_1D_sparse_data,
    permute_2D_sparse_data as permute_2D_sparse_data,
    split_permute_cat as split_permute_cat,
)
