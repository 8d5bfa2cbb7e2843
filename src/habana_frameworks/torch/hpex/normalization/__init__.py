"""Fused normalization."""

from openhpu.interface.hpex.normalization import FusedClipNorm, FusedRMSNorm, RmsNormBwdMode

__all__ = ["FusedClipNorm", "FusedRMSNorm", "RmsNormBwdMode"]
