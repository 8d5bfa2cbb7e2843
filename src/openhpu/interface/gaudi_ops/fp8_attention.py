"""Attention on fp8 operands, each with a scale; probabilities are rounded to fp8, too."""

from torch import Tensor

from openhpu.interface.gaudi_ops import attention, operators
from openhpu.interface.gaudi_ops.attention import Attention, Scales, Window
from openhpu.interface.gaudi_ops.errors import check, expect


def _scales_of(a: operators.Fp8SdpaFwd | operators.Fp8SdpaRecompFwd) -> Scales:
    return Scales(d_q=a.d_scale_q, d_k=a.d_scale_k, d_v=a.d_scale_v, q_s=a.q_scale_s, d_s=a.d_scale_s, q_o=a.q_scale_o)


def _forward_call(
    a: operators.Fp8SdpaFwd | operators.Fp8SdpaRecompFwd, window: Window | None = None, sinks: Tensor | None = None
) -> Attention:
    return attention.forward_call(a)._replace(window=window, sinks=sinks, scales=_scales_of(a))


def fp8_sdpa_fwd(a: operators.Fp8SdpaFwd) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Attention of q * d_scale_q, k * d_scale_k, v * d_scale_v; `sdpa_fwd`'s results; the softmax's maximum.

    Probabilities are held as fp8(P * q_scale_s) and read times d_scale_s; the result is fp8(out * q_scale_o), in
    bfloat16 (or q's dtype) where that scale is None. A scale holds one number. The maximum is empty unless `is_amax_s`.
    Source: the operator's schema.
    """
    return attention.forward(_forward_call(a), a.is_amax_s)


def fp8_sdpa_recomp_fwd(a: operators.Fp8SdpaRecompFwd) -> tuple[Tensor, ...]:
    """`fp8_sdpa_fwd`'s first result; of each row of scores its maximum and 1 / the sum of exponentials; the dropout's
    seed; the maxima of probabilities and result if wanted.

    window_size: keys that a query sees to its left and to its right, -1: all. sinks: a score for each head, which takes
    part in the softmax's sum, and nowhere else.
    """
    heads = a.q.shape[-3]
    size = [-1, -1] if a.window_size is None else list(a.window_size)
    check(len(size) == 2, a.operator, "window_size", size, "two numbers, of keys to the left and right")
    fits = a.sinks is None or a.sinks.numel() == heads
    expect(a, "sinks", fits, f"one score for each of the {heads} heads")
    window = None if max(size) < 0 else (size[0], size[1])
    call = _forward_call(a, window, a.sinks)
    return attention.recomputable(call, a.is_amax_s, bool(a.is_amax_0 or a.is_amax_o))


def fp8_sdpa_bwd(a: operators.Fp8SdpaBwd) -> tuple[Tensor, ...]:
    """Gradients of q, k and v, in bfloat16 for fp8 operands; the maximum of the scores' gradient if wanted.

    The gradient of the scores is held as fp8(ds * q_scale_ds) and read times d_scale_ds. Each d_scale gives back the
    values of its operand.
    """
    expect(a, "grad", a.grad.shape == a.fwd_out.shape, f"a tensor of shape {list(a.fwd_out.shape)}")
    scales = Scales(
        d_q=a.d_scale_q,
        d_k=a.d_scale_k,
        d_v=a.d_scale_v,
        d_s=a.d_scale_s,
        d_do=a.d_scale_do,
        q_ds=a.q_scale_ds,
        d_ds=a.d_scale_ds,
    )
    call = Attention(a.operator, a.q, a.k, a.v, None, a.p, a.scale, a.is_causal, scales=scales)
    *found, grad_s = attention.backward(call, a.grad, a.P, a.dm)
    return *found, attention.maximum_of(grad_s, a.is_amax_ds)
