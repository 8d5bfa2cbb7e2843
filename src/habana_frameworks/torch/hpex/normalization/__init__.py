"""Fused normalization."""

from openhpu.hpex.normalization import FusedClipNorm, FusedRMSNorm, RmsNormBwdMode

__all__ = ["FusedClipNorm", "FusedRMSNorm", "RmsNormBwdMode"]
