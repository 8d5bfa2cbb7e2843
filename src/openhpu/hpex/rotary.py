"""Rotary position embeddings in the forms that models call."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from openhpu.gaudi_ops.errors import check
from openhpu.gaudi_ops.rotary import RotaryPosEmbeddingMode


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
    def apply(p: Tensor, rope_cache: Tensor) -> Tensor:
        """The first 2 n coordinates of `p` rotated, those after them as they are.

        p: [S, batch, heads, D]; rope_cache: [positions, batch or 1, (1,) n, 2], cosine and sine, at least S positions.
        Source: the model ChatGLM.
        """
        name = "RotaryPosEmbeddingHelperV3"
        check(p.dim() == 4, name, "p", p, "[length, batch, heads, dimension]")
        check(
            rope_cache.dim() >= 3 and rope_cache.shape[-1] == 2 and rope_cache.shape[0] >= p.shape[0], name,
            "rope_cache", rope_cache, f"[{p.shape[0]} or more, batch, n, 2]",
        )  # fmt: skip
        pairs = rope_cache.shape[-2]
        check(2 * pairs <= p.shape[-1], name, "rope_cache", rope_cache, f"at most {p.shape[-1] // 2} pairs")
        cache = rope_cache[: p.shape[0]].reshape(p.shape[0], -1, 1, pairs, 2).float()
        cosine = cache[..., 0].repeat_interleave(2, -1)
        sine = cache[..., 1].repeat_interleave(2, -1)
        turned = torch.ops.hpu.rotary_pos_embedding(
            p[..., : 2 * pairs], sine, cosine, None, 0, int(RotaryPosEmbeddingMode.PAIRWISE)
        )
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
