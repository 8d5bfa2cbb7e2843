"""Fused attention on fp8, and how heads are grouped for it."""

from openhpu.interface.hpex.attention import gqa_input_reshape_fwd, gqa_output_reshape, is_gqa
from openhpu.interface.hpex.kernels import fp8_fused_sdpa

__all__ = ["fp8_fused_sdpa", "gqa_input_reshape_fwd", "gqa_output_reshape", "is_gqa"]
