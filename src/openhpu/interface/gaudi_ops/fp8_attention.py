"""Attention on fp8 operands, each with a scale; probabilities are rounded to fp8, too."""

from torch import Tensor

from openhpu.interface.gaudi_ops.attention import backward, forward, maximum_of, recomputable
from openhpu.interface.gaudi_ops.registry import Arguments


def fp8_sdpa_fwd(a: Arguments) -> tuple[Tensor, ...]:
    """Attention of q * d_scale_q, k * d_scale_k, v * d_scale_v; probabilities; dropout's mask; their maximum.

    Probabilities are held as fp8(P * q_scale_s) and read times d_scale_s; the result is fp8(out * q_scale_o), in
    bfloat16 (or q's dtype) where that scale is None. Shapes: `sdpa_fwd`'s; a scale holds one number. Dropout is a
    function of `seed`, if that is given; `non_dropout` drops nothing, whatever p is. The maximum, that of the softmax,
    is empty unless `is_amax_s`. Source: the operator's schema.
    """
    return forward(a)


def fp8_sdpa_recomp_fwd(a: Arguments) -> tuple[Tensor, ...]:
    """`fp8_sdpa_fwd`'s result; maximum and 1 / sum of each row; the dropout's seed; maxima of softmax and result.

    window_size: keys that a query sees to its left and to its right, -1: all. sinks: a score for each head, which takes
    part in the softmax's sum, and nowhere else.
    """
    return recomputable(a)


def fp8_sdpa_bwd(a: Arguments) -> tuple[Tensor, ...]:
    """Gradients of q, k and v, in bfloat16 for fp8 operands, and the maximum of the scores' gradient.

    P, dm: `fp8_sdpa_fwd`'s probabilities and mask. The gradient of the scores is held as fp8(ds * q_scale_ds) and
    read times d_scale_ds. Each d_scale gives back the values of its operand.
    """
    *results, scores = backward(a)
    return *results, maximum_of(scores, a.is_amax_ds)
