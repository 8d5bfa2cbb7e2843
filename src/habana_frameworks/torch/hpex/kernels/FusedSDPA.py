"""Fused attention, and how heads are grouped for it."""

from openhpu.interface.hpex.attention import (
    FusedSDPA,
    ModuleFusedSDPA,
    PySDPA,
    PySDPAHinted,
    gqa_input_reshape_fwd,
    gqa_output_reshape,
    is_gqa,
)

__all__ = [
    "FusedSDPA", "ModuleFusedSDPA", "PySDPA", "PySDPAHinted", "gqa_input_reshape_fwd", "gqa_output_reshape", "is_gqa",
]  # fmt: skip
