"""Rotary position embeddings in the forms that models call."""

from typing import Any

import torch
from torch import Tensor

from openhpu.interface.gaudi_ops.errors import check
from openhpu.interface.gaudi_ops.registry import one_operator
from openhpu.interface.gaudi_ops.rotary import RotaryPosEmbeddingMode

__all__ = [
    "RotaryPosEmbeddingHelperV1",
    "RotaryPosEmbeddingHelperV2",
    "RotaryPosEmbeddingHelperV3",
    "RotaryPosEmbeddingMode",
    "apply_rotary_pos_emb",
]


class RotaryPosEmbeddingHelperV1:
    """Positions from an offset on: `apply(p, cos, sin, offset)`."""

    @staticmethod
    def apply(p: Tensor, cos: Tensor, sin: Tensor, offset: int = 0) -> Tensor:
        """torch.ops.hpu.rotary_pos_embedding, with halves that rotate together."""
        return _rotated(p, cos, sin, None, offset, RotaryPosEmbeddingMode.BLOCKWISE)


class RotaryPosEmbeddingHelperV2:
    """Positions by index: `apply(p, cos, sin, position_ids)`."""

    @staticmethod
    def apply(p: Tensor, cos: Tensor, sin: Tensor, position_ids: Tensor | None) -> Tensor:
        """torch.ops.hpu.rotary_pos_embedding, with halves that rotate together. position_ids: [batch, S]."""
        return _rotated(p, cos, sin, position_ids, 0, RotaryPosEmbeddingMode.BLOCKWISE)


class RotaryPosEmbeddingHelperV3:
    """Neighbours that rotate together, by a cache of cosines and sines: `apply(p, rope_cache)`."""

    @staticmethod
    @one_operator
    def apply(p: Tensor, rope_cache: Tensor) -> Tensor:
        """The first 2 n coordinates of `p` rotated, those after them as they are.

        p: [S, batch, heads, D] with rope_cache [positions, batch or 1, (1,) n, 2]; or p: [batch, heads, S, D] with
        rope_cache [batch or 1, positions, n, 2]. The cache holds cosine and sine, of S positions at least.
        Source: the model ChatGLM, whose versions have the one form or the other.
        """
        name = "RotaryPosEmbeddingHelperV3"
        check(p.dim() == 4, name, "p", p, "[length, batch, heads, dimension]")
        shape = rope_cache.shape
        pairs = shape[-2] if rope_cache.dim() > 1 else 0
        in_pairs = rope_cache.dim() in (3, 4, 5) and shape[-1] == 2
        fits = in_pairs and shape[0] >= p.shape[0]
        length_first = fits and rope_cache[0].numel() // (2 * pairs) in (1, p.shape[1])
        heads_first = in_pairs and len(shape) == 4 and shape[0] in (1, p.shape[0]) and shape[1] >= p.shape[2]
        check(
            length_first or heads_first,
            name,
            "rope_cache",
            rope_cache,
            f"[{p.shape[0]} or more, batch or 1, n, 2], or [batch or 1, {p.shape[2]} or more, n, 2] where p is "
            "[batch, heads, length, dimension]",
        )
        check(2 * pairs <= p.shape[-1], name, "rope_cache", rope_cache, f"at most {p.shape[-1] // 2} pairs")
        if length_first:
            cache = rope_cache[: p.shape[0]].reshape(p.shape[0], -1, 1, pairs, 2).float()
        else:
            cache = rope_cache[:, : p.shape[2]].unsqueeze(1).float()
        cosine = cache[..., 0].repeat_interleave(2, -1)
        sine = cache[..., 1].repeat_interleave(2, -1)
        turned = _rotated(p[..., : 2 * pairs], cosine, sine, None, 0, RotaryPosEmbeddingMode.PAIRWISE)
        return torch.cat((turned, p[..., 2 * pairs :]), -1)


def apply_rotary_pos_emb(
    p: Tensor,
    cos: Tensor,
    sin: Tensor | None = None,
    position_ids: Tensor | None = None,
    offset: int = 0,
    mode: RotaryPosEmbeddingMode = RotaryPosEmbeddingMode.BLOCKWISE,
) -> Tensor:
    """p * cos + rotate(p) * sin at the positions given; with two arguments, p and a rope cache, as HelperV3.

    Shapes are those of torch.ops.hpu.rotary_pos_embedding.
    """
    if sin is None:
        return RotaryPosEmbeddingHelperV3.apply(p, cos)
    return _rotated(p, cos, sin, position_ids, offset, mode)


def _rotated(p: Tensor, cos: Tensor, sin: Tensor, position_ids: Any, offset: int, mode: int) -> Tensor:
    return torch.ops.hpu.rotary_pos_embedding(p, sin, cos, position_ids, offset, int(mode))  # type: ignore[no-any-return]
