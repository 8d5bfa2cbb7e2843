"""What an operator does: the kind of its work, its engine, and the size of its matrix products."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves


class Kind(enum.StrEnum):
    """The kind of an operator's work."""

    PRODUCT = enum.auto()
    ATTENTION = enum.auto()
    POINTWISE = enum.auto()
    ROWS = enum.auto()  # a reduction over the last dimension, a softmax or a norm
    REDUCTION = enum.auto()
    GATHER = enum.auto()
    COPY = enum.auto()
    HOST_COPY = enum.auto()
    COLLECTIVE = enum.auto()
    UNKNOWN = enum.auto()  # an operator without a cost of its own


ENGINES = {
    Kind.PRODUCT: "MME", Kind.ATTENTION: "MME", Kind.COPY: "DMA", Kind.HOST_COPY: "host", Kind.COLLECTIVE: "network",
}  # fmt: skip

# Batch, rows, columns, and the length of the sums of a matrix product.
Product = tuple[int, int, int, int]

_PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "_scaled_mm", "fp8_gemm_v2", "fp8_gemm", "mv", "dot", "_int_mm"}
_CONVOLUTIONS = {"convolution", "_convolution", "convolution_overrideable", "convolution_backward"}
_ROWS = {
    "_softmax", "_safe_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data",
    "native_layer_norm", "native_layer_norm_backward", "_fused_rms_norm", "_fused_rms_norm_backward",
    "nll_loss_forward", "nll_loss_backward", "logsumexp", "rms_norm", "rms_norm_fast", "rms_norm_backward",
    "rms_norm_fast_backward", "custom_softmax", "scaled_masked_softmax", "scaled_triangular_softmax", "softmax_fp8",
}  # fmt: skip
_REDUCTIONS = {
    "sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "var", "var_mean", "std", "prod", "any", "all",
    "norm", "linalg_vector_norm", "cumsum", "native_batch_norm", "native_batch_norm_backward", "native_group_norm",
    "native_group_norm_backward", "max_pool2d_with_indices", "max_pool2d_with_indices_backward", "avg_pool2d",
    "avg_pool2d_backward", "_adaptive_avg_pool2d", "_adaptive_avg_pool2d_backward", "topk", "sort",
}  # fmt: skip
_GATHERS = {
    "embedding", "embedding_dense_backward", "gather", "scatter", "scatter_", "scatter_add", "scatter_add_",
    "index_select", "index", "index_put", "index_put_", "index_add", "index_add_", "index_copy", "index_copy_",
    "_unsafe_index", "_index_put_impl_",
}  # fmt: skip
_COPIES = {
    "clone", "copy", "contiguous", "roll", "flip", "constant_pad_nd", "repeat", "slice_scatter", "select_scatter",
    "slice_backward", "select_backward", "all_gather_copy_in", "split_with_sizes_copy", "chunk_cat", "_chunk_cat",
}  # fmt: skip
# Without the tag pointwise, and yet one pass over their elements.
_POINTWISE = {
    "_to_copy", "copy_", "cat", "stack", "fill_", "zero_", "zeros", "ones", "full", "zeros_like", "ones_like",
    "full_like", "new_zeros", "new_ones", "new_full", "arange", "native_dropout", "native_dropout_backward",
    "dropout", "bernoulli", "bernoulli_", "rand", "randn", "uniform_", "normal_", "random_", "masked_fill",
    "masked_fill_", "tril", "triu", "_fused_adamw_", "_fused_adam_", "_fused_sgd_", "optimizer_adamw",
    "rotary_pos_embedding", "rotary_pos_embedding_backward", "cast_to_fp8_v2", "cast_from_fp8", "scalar_tensor",
    "lift_fresh_copy", "one_hot", "where", "exponential_", "log_normal_", "cauchy_", "rand_like", "randn_like",
    "randint", "eye", "linspace", "threshold_backward",
}  # fmt: skip
# What allocates, and does nothing else.
NOTHING = {
    "wait_tensor", "empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted",
    "resize_",
}  # fmt: skip
_COLLECTIVES = {"c10d", "_c10d_functional", "c10d_functional", "hccl", "_c10d_functional_autograd"}
# Steps of a TPC for an element. A step of any other operator is one.
_STEPS = {name: 8 for name in ("exp", "log", "tanh", "sigmoid", "silu", "gelu", "erf", "rsqrt", "sqrt", "softmax",
                               "div", "sin", "cos", "norm", "adam", "reciprocal")}  # fmt: skip
ATTENTION_STEPS = 12  # of a score: scale, mask, maximum, difference, exponential, sum, quotient


def kind(func: torch._ops.OpOverload, tensors: Sequence[torch.Tensor], outs: Sequence[torch.Tensor]) -> Kind:
    """The kind of a call. `tensors` are its operands, `outs` its results."""
    name = func.overloadpacket.__name__
    if func.namespace in _COLLECTIVES and "wait" not in name:
        return Kind.COLLECTIVE
    if name in _PRODUCTS or name in _CONVOLUTIONS:
        return Kind.PRODUCT
    if "scaled_dot_product" in name or "sdpa" in name:
        return Kind.ATTENTION
    if len({tensor.device.type for tensor in (*tensors, *outs)} - {"meta"}) > 1 and name in ("_to_copy", "copy_"):
        return Kind.HOST_COPY
    if name == "_local_scalar_dense":
        return Kind.HOST_COPY
    if name in _ROWS:
        return Kind.ROWS
    if name in _REDUCTIONS:
        last = bool(outs and tensors) and tuple(outs[0].shape[: tensors[0].dim() - 1]) == tuple(tensors[0].shape[:-1])
        return Kind.ROWS if last and tensors[0].dim() > 1 else Kind.REDUCTION
    if name in _GATHERS:
        return Kind.GATHER
    if name in _COPIES:
        return Kind.COPY
    if name in _POINTWISE or name.startswith("_foreach_") or torch.Tag.pointwise in func.tags:
        return Kind.POINTWISE
    return Kind.UNKNOWN


def into(
    func: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[list[torch.Tensor], list[torch.Tensor]] | None:
    """The inputs and outputs of a copy or a collective that writes into operands, else None."""

    def tensors(side: Any) -> list[torch.Tensor]:
        return [leaf for leaf in tree_leaves(side) if isinstance(leaf, torch.Tensor)]

    if func.overloadpacket.__name__ == "all_gather_copy_in":
        return tensors(args[0]), [args[1][: sum(one.numel() for one in tensors(args[0]))]]  # this card's part
    if "out" in kwargs:
        return tensors(args), tensors(kwargs["out"])
    if func.namespace != "c10d":
        return None
    return tensors(args[1:2]) or tensors(args[0]), tensors(args[0])  # one list alone is changed in place


def product(func: torch._ops.OpOverload, args: Sequence[Any], outs: Sequence[torch.Tensor]) -> list[Product]:
    """The matrix products of a call. A convolution is the product of its patches with its weights."""
    name = func.overloadpacket.__name__
    if name == "convolution_backward":
        gradient, image, weight = args[0], args[1], args[2]
        return [_convolution(weight, image if args[7] else gradient)] * sum(bool(wanted) for wanted in args[10][:2])
    if name in _CONVOLUTIONS:
        return [_convolution(args[1], args[0] if args[6] else outs[0])]
    tensors = [one for one in args if isinstance(one, torch.Tensor)]
    left = tensors[1] if name in ("addmm", "baddbmm") else tensors[0]
    out = outs[0]
    length = left.shape[-2] if name.startswith("fp8_gemm") and args[1] else left.shape[-1]
    rows, columns = (out.shape[-2], out.shape[-1]) if out.dim() > 1 else (max(out.numel(), 1), 1)
    return [(math.prod(out.shape[:-2]), int(rows), int(columns), int(length))]


def _convolution(weight: torch.Tensor, pixels: torch.Tensor) -> Product:
    """`pixels`: the image whose channels are the weight's first dimension."""
    return 1, pixels.numel() // max(pixels.shape[1], 1), int(weight.shape[0]), math.prod(weight.shape[1:])


def attention(func: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Product]:
    """The products of an attention: scores, and scores with values. A backward pass has five in the place of two.

    A causal one counts half of the columns.
    """
    name = func.overloadpacket.__name__
    tensors = [one for one in args if isinstance(one, torch.Tensor) and one.dim() == 4]
    backward = "backward" in name or "bwd" in name
    query, key = tensors[1 if backward else 0], tensors[2 if backward else 1]
    names = [argument.name for argument in func._schema.arguments]
    at = names.index("is_causal") if "is_causal" in names else len(args)
    causal = bool(kwargs.get("is_causal", args[at] if at < len(args) else False))
    columns = int(key.shape[-2]) // (2 if causal and query.shape[-2] > 1 else 1)
    batch, rows, width = math.prod(query.shape[:-2]), int(query.shape[-2]), int(query.shape[-1])
    groups = max(int(query.shape[1]) // max(int(key.shape[1]), 1), 1)  # heads that share a key become rows
    batch, rows = batch // groups, rows * groups
    pair: list[Product] = [(batch, rows, max(columns, 1), width), (batch, rows, width, max(columns, 1))]
    return [pair[0], *pair, *pair] if backward else pair


def steps(name: str) -> int:
    """The TPC's steps for an element."""
    return max((cost for word, cost in _STEPS.items() if word in name), default=1)
