"""The functions of Gaudi's compiled module `_hpex_C`, which its lazy mode calls: operators of torch.ops.hpu."""

from __future__ import annotations

from typing import Any

import torch

from openhpu.interface.hpex.kernels import EmbeddingBagPreproc

_OPERATORS = {
    "bounds_check_indices": "habana_bounds_check_indices",
    "embedding_bag_sum_bwd": "embedding_bag_sum_bwd_out",
    "embedding_bag_sum_fwd": "embedding_bag_sum",
    "expand_into_jagged_permute": "habana_expand_into_jagged_permute",
    "fused_adagrad": "habanaOptimizerFusedAdagrad",
    "fused_ema": "habanaOptimizerFusedEMA",
    "fused_lars": "habanaOptimizerLars",
    "fused_norm": "fused_norm_lazy",
    "optimizer_sgd": "habanaOptimizerSgd",
    "optimizer_sgd_momentum": "habanaOptimizerSgdMomentum",
    "permute_1D_sparse_data": "habana_permute_1D_sparse_data",
    "permute_2D_sparse_data": "habana_permute_2D_sparse_data",
    "random_seed": "habana_random_seed",
    "sparse_adagrad_with_valid_count": "habanaOptimizerSparseAdagrad",
    "sparse_sgd_with_valid_count": "habanaOptimizerSparseSgd",
    "split_permute_cat": "habana_split_permute_cat",
}

NAMES = (*_OPERATORS, "embedding_bag_preproc")


def find(name: str) -> Any:
    """The value of `_hpex_C.name`. Raises AttributeError for another name, with an alternative."""
    if name == "embedding_bag_preproc":
        return EmbeddingBagPreproc
    if name in _OPERATORS:
        return getattr(torch.ops.hpu, _OPERATORS[name])
    hints = {
        "roi_align_forward": "; use torchvision.ops.roi_align",
        "roi_align_backward": "; use torchvision.ops.roi_align, which has a gradient",
        "matmul_ex": "; use torch.matmul",
        "matmul_ex_backward": "; use torch.matmul, which has a gradient",
    }
    raise AttributeError(f"module '_hpex_C' has no attribute {name!r}{hints.get(name, '')}")
