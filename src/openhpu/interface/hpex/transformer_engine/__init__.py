"""Training in fp8 with delayed scaling: the interface of Gaudi's transformer engine."""

from openhpu.interface.hpex.transformer_engine.attention import FusedAttention
from openhpu.interface.hpex.transformer_engine.linear import Linear
from openhpu.interface.hpex.transformer_engine.scaling import DelayedScaling, Format
from openhpu.interface.hpex.transformer_engine.state import (
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
