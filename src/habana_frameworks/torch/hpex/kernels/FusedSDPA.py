"""Fused attention, and how heads are grouped for it."""

from openhpu.interface.hpex.attention import (
    FusedSDPA as FusedSDPA,
    ModuleFusedSDPA as ModuleFusedSDPA,
    PySDPA as PySDPA,
    PySDPAHinted as PySDPAHinted,
    gqa_input_reshape_fwd as gqa_input_reshape_fwd,
    gqa_output_reshape as gqa_output_reshape,
    is_gqa as is_gqa,
)
