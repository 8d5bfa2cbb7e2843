"""Training in fp8 with delayed scaling: the interface of Gaudi's transformer engine."""

from openhpu.interface.hpex.transformer_engine.attention import FusedAttention as FusedAttention
from openhpu.interface.hpex.transformer_engine.linear import Linear as Linear
from openhpu.interface.hpex.transformer_engine.scaling import DelayedScaling as DelayedScaling, Format as Format
from openhpu.interface.hpex.transformer_engine.state import (
    FP8GlobalStateManager as FP8GlobalStateManager,
    activation_checkpointing as activation_checkpointing,
    fp8_autocast as fp8_autocast,
    is_fp8_available as is_fp8_available,
)
