"""Attention on fp8 operands, each with a scale; probabilities are rounded to fp8, too.

`fp8_sdpa_fwd`: attention of q * d_scale_q, k * d_scale_k, v * d_scale_v. Probabilities are held as fp8(P * q_scale_s)
and read times d_scale_s; the result is fp8(out * q_scale_o), in bfloat16 (or q's dtype) where that scale is None. A
scale holds one number. The maximum, that of the softmax, is empty unless `is_amax_s`. Source: the operator's schema.

`fp8_sdpa_recomp_fwd`: window_size: keys that a query sees to its left and to its right, -1: all. sinks: a score for
each head, which takes part in the softmax's sum, and nowhere else.

`fp8_sdpa_bwd`: gradients in bfloat16 for fp8 operands. The gradient of the scores is held as fp8(ds * q_scale_ds) and
read times d_scale_ds. Each d_scale gives back the values of its operand.
"""

from openhpu.interface.gaudi_ops.attention import (
    backward as fp8_sdpa_bwd,
    forward as fp8_sdpa_fwd,
    recomputable as fp8_sdpa_recomp_fwd,
)

__all__ = ["fp8_sdpa_bwd", "fp8_sdpa_fwd", "fp8_sdpa_recomp_fwd"]
