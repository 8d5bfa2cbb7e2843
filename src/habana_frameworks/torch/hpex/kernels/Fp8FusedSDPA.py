"""Fused attention on fp8."""

from openhpu.hpex.kernels import fp8_fused_sdpa

__all__ = ["fp8_fused_sdpa"]
