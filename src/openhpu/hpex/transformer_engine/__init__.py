"""Training in fp8 with delayed scaling: the interface of Gaudi's transformer engine."""

from openhpu.hpex.transformer_engine.attention import FusedAttention
from openhpu.hpex.transformer_engine.linear import Linear
from openhpu.hpex.transformer_engine.recipe import DelayedScaling, Format
from openhpu.hpex.transformer_engine.state import (
    FP8GlobalStateManager,
    activation_checkpointing,
    fp8_autocast,
    is_fp8_available,
)

__all__ = [
    "DelayedScaling",
    "FP8GlobalStateManager",
    "Format",
    "FusedAttention",
    "Linear",
    "activation_checkpointing",
    "fp8_autocast",
    "is_fp8_available",
]
