"""Training in fp8."""

from habana_frameworks.torch.hpex.experimental.transformer_engine import distributed, fp8, recipe
from openhpu.interface.hpex.transformer_engine import FP8GlobalStateManager, FusedAttention, Linear, fp8_autocast

__all__ = ["FP8GlobalStateManager", "FusedAttention", "Linear", "distributed", "fp8", "fp8_autocast", "recipe"]
