"""The state of fp8."""

from openhpu.interface.hpex.transformer_engine import FP8GlobalStateManager, fp8_autocast, is_fp8_available

__all__ = ["FP8GlobalStateManager", "fp8_autocast", "is_fp8_available"]
