"""Kernels as functions and classes: losses, softmaxes, embeddings, seeds, fp8 attention."""

from typing import Any

import torch
from torch import Tensor

from openhpu.interface.gaudi_ops.attention import default_scale
from openhpu.interface.gaudi_ops.embeddings import segments
from openhpu.interface.gaudi_ops.errors import check
from openhpu.interface.gaudi_ops.fp8 import Scale
from openhpu.interface.gaudi_ops.losses import REDUCTIONS

__all__ = [
    "CTCLoss",
    "CustomSoftmax",
    "EmbeddingBag",
    "EmbeddingBagPreproc",
    "RaggedSoftmax",
    "RandomSeed",
    "fp8_fused_sdpa",
    "triu_masked_softmax",
]

_SCALES = ("d_scale_q", "d_scale_k", "d_scale_v", "q_scale_s", "q_scale_o", "d_scale_s")


class CTCLoss:
    """Connectionist temporal classification. Called as `CTCLoss.apply(...)`."""

    @staticmethod
    def apply(
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Tensor,
        target_lengths: Tensor,
        blank: int = 0,
        reduction: str = "mean",
        zero_infinity: bool = False,
    ) -> Tensor:
        """torch.nn.functional.ctc_loss. Raises RuntimeError for another reduction than none, mean, sum."""
        check(reduction in REDUCTIONS, "CTCLoss", "reduction", reduction, f"one of {', '.join(REDUCTIONS)}")
        return torch.ops.hpu.ctc_loss_custom(  # type: ignore[no-any-return]
            log_probs, targets, input_lengths, target_lengths, blank, REDUCTIONS.index(reduction), zero_infinity
        )[0]


class CustomSoftmax:
    """Softmax over the last dimension. Called as `CustomSoftmax.apply(x, flavor)`."""

    @staticmethod
    def apply(x: Tensor, flavor: int) -> Tensor:
        """torch.ops.hpu.custom_softmax."""
        return torch.ops.hpu.custom_softmax(x, flavor)  # type: ignore[no-any-return]


class RandomSeed:
    """Seeds for random operators."""

    @staticmethod
    def random_seed(input: Tensor) -> Tensor:
        """torch.ops.hpu.habana_random_seed: an int32 tensor [1] on the input's device."""
        return torch.ops.hpu.habana_random_seed(input)  # type: ignore[no-any-return]


def RaggedSoftmax(x: Tensor, dim: int, valid_count: Tensor, half_to_float: bool = False) -> Tensor:
    """torch.ops.hpu.ragged_softmax: softmax over the first valid_count positions of `dim`."""
    return torch.ops.hpu.ragged_softmax(x, dim, half_to_float, valid_count)  # type: ignore[no-any-return]


def triu_masked_softmax(x: Tensor, inv_scale_attn: float = 1.0) -> Tensor:
    """torch.ops.hpu.scaled_triangular_softmax: no row uses the elements above the diagonal."""
    return torch.ops.hpu.scaled_triangular_softmax(x, inv_scale_attn)  # type: ignore[no-any-return]


def EmbeddingBagPreproc(indices: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The data for the backward of a sum over bags: for each different index the bags whose gradients it gets.

    indices: [n]; offsets: [bags + 1]. Returns the unique indices; bags in the order of the indices; where those of
    each index begin, [unique + 1]; counts [2], of bags in that order and of unique indices. Waits for the device,
    as it sizes its results by the values.
    """
    bags = segments(offsets, indices.shape[0])
    order = torch.argsort(indices, stable=True)
    unique, counts = torch.unique_consecutive(indices[order], return_counts=True)
    starts = torch.cat((counts.new_zeros(1), counts.cumsum(0)))
    valid = torch.tensor([indices.shape[0], unique.shape[0]], device=indices.device)
    return unique, bags[order], starts, valid


class EmbeddingBag(torch.nn.Module):
    """Sums of embeddings over bags: torch.nn.EmbeddingBag with mode="sum" and the last offset included.

    weight: [num_embeddings, embedding_dim].
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, _weight: Tensor | None = None, **kwargs: Any) -> None:
        super().__init__()
        weight = torch.randn(num_embeddings, embedding_dim, **kwargs) if _weight is None else _weight
        fits = tuple(weight.shape) == (num_embeddings, embedding_dim)
        check(fits, "EmbeddingBag", "_weight", weight, f"shape [{num_embeddings}, {embedding_dim}]")
        self.weight = torch.nn.Parameter(weight)

    def forward(
        self, indices: Tensor, offsets: Tensor, valid_count: Tensor | None = None, kernel_mode: int = 0
    ) -> Tensor:
        """torch.ops.hpu.embedding_bag_sum; all indices count unless `valid_count` says less."""
        if valid_count is None:
            valid_count = torch.full((1,), indices.shape[0], device=indices.device)
        return torch.ops.hpu.embedding_bag_sum(  # type: ignore[no-any-return]
            self.weight, indices, offsets, valid_count, kernel_mode
        )


def fp8_fused_sdpa(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    softmax_mode: str = "None",
    d_scale_q: Scale = None,
    d_scale_k: Scale = None,
    d_scale_v: Scale = None,
    q_scale_s: Scale = None,
    q_scale_o: Scale = None,
    d_scale_s: Scale = None,
    is_amax_s: bool = False,
    is_amax_o: bool = False,
    valid_seq_len: Tensor | None = None,
    seq_padding_type: str = "left",
    recompute: bool | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """torch.ops.hpu.fp8_sdpa_recomp_fwd: the result, and the maxima of its softmax and of itself, if asked for.

    `recompute` changes no number. Scales are all tensors, all numbers, or None.
    """
    scales = [d_scale_q, d_scale_k, d_scale_v, q_scale_s, q_scale_o, d_scale_s]
    if any(isinstance(s, Tensor) for s in scales):
        scales = [torch.full((1,), s, device=query.device) if isinstance(s, float) else s for s in scales]
    elif any(s is not None for s in scales):
        check(all(s is not None for s in scales), "fp8_fused_sdpa", "scales", scales, "numbers for all, or tensors")
    out, _, _, _, amax_s, amax_o = torch.ops.hpu.fp8_sdpa_recomp_fwd(
        q=query,
        k=key,
        v=value,
        attention_mask=attn_mask,
        p=dropout_p,
        scale=default_scale(query, scale),
        is_causal=is_causal,
        requires_backward=False,
        softmax_mode=softmax_mode,
        **dict(zip(_SCALES, scales, strict=True)),
        is_amax_s=is_amax_s,
        is_amax_0=is_amax_o,
        valid_seq_len=valid_seq_len,
        seq_padding_type=seq_padding_type,
    )
    return out, amax_s, amax_o
