"""Attention on operands that are rounded to fp8."""

from typing import Any

import torch
from torch import Tensor

from openhpu.interface.hpex.attention import FusedSDPA
from openhpu.interface.hpex.transformer_engine.linear import rounded
from openhpu.interface.hpex.transformer_engine.state import FP8GlobalStateManager, TensorScale, is_recomputing


class _Rounded(torch.autograd.Function):
    """A tensor as fp8 holds it; its gradient passes as it is."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: TensorScale, dtype: torch.dtype, recording: bool) -> Tensor:
        x8, inverse = rounded(x, scale, dtype, recording)
        return torch.ops.hpu.cast_from_fp8(x8, inverse, x.dtype)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return grads[0], None, None, None


class FusedAttention(torch.nn.Module):
    """hpex.kernels.FusedSDPA; under fp8_autocast of query, key and value rounded to fp8 with scales by the recipe."""

    def __init__(
        self, scale: float | None = None, attention_dropout: float = 0.0, enable_recompute: bool = False
    ) -> None:
        super().__init__()
        self.scale, self.attention_dropout, self.enable_recompute = scale, attention_dropout, enable_recompute
        self.fp8_scales = torch.nn.ModuleDict({name: TensorScale() for name in ("query", "key", "value")})

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        softmax_mode: str = "None",
        valid_sequence_lengths: Tensor | None = None,
    ) -> Tensor:
        """softmax(query @ key^T * scale + mask) @ value; shapes as FusedSDPA's. Dropout in training alone."""
        tensors = {"query": query, "key": key, "value": value}
        if FP8GlobalStateManager.is_fp8_enabled():
            dtype = FP8GlobalStateManager.get_fp8_recipe().fp8_format.value[0]
            recording = not is_recomputing()
            tensors = {
                name: _Rounded.apply(x, self.fp8_scales[name], dtype, recording)  # type: ignore[no-untyped-call]
                for name, x in tensors.items()
            }
        p = self.attention_dropout if self.training else 0.0
        more = attn_mask, p, is_causal, self.scale, softmax_mode, self.enable_recompute, valid_sequence_lengths
        return FusedSDPA.apply(tensors["query"], tensors["key"], tensors["value"], *more)  # type: ignore[no-any-return]
