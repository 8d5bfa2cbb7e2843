"""Attention on fp8 operands, each with a scale; probabilities are rounded to fp8, too."""

from __future__ import annotations

from torch import Tensor

from openhpu.interface.gaudi_ops.attention import backward, forward, maximum_of, recomputable
from openhpu.interface.gaudi_ops.registry import Arguments, operator

_QKV = "Tensor q, Tensor k, Tensor v, Tensor? attention_mask, float p, float scale, bool is_causal"
_TENSORS = ", ".join(
    f"Tensor? {name}" for name in ("d_scale_q", "d_scale_k", "d_scale_v", "q_scale_s", "q_scale_o", "d_scale_s")
)
_NUMBERS = _TENSORS.replace("Tensor?", "float")
_PADDING = "Tensor? valid_seq_len, str seq_padding_type"
_FOUR = "(Tensor, Tensor, Tensor, Tensor)"
_SIX = "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
_OF = "to, mul, matmul, masked_fill, amax, exp, sum, clamp"
_FWD = f"{_QKV}, str softmax_mode, {_TENSORS}, bool is_amax_s, {_PADDING}) -> {_FOUR}"


@operator(
    f"fp8_sdpa_fwd({_FWD}", f"fp8_sdpa_fwd_dropout({_FWD}", f"fp8_sdpa_fwd_dropout_seed(Tensor seed, {_FWD}",
    f"fp8_sdpa_fwd_non_dropout({_FWD}", of=_OF, named=True,
)  # fmt: skip
def fp8_sdpa_fwd(a: Arguments) -> tuple[Tensor, ...]:
    """Attention of q * d_scale_q, k * d_scale_k, v * d_scale_v; probabilities; dropout's mask; their maximum.

    Probabilities are held as fp8(P * q_scale_s) and read times d_scale_s; the result is fp8(out * q_scale_o), in
    bfloat16 (or q's dtype) where that scale is None. Shapes: `sdpa_fwd`'s; a scale holds one number. Dropout is a
    function of `seed`, if that is given; `non_dropout` drops nothing, whatever p is. The maximum, that of the softmax,
    is empty unless `is_amax_s`. Source: the operator's schema.
    """
    return forward(a)


_MORE = ", int[2] window_size=[-1, -1], Tensor? sinks=None"


def _recomp(name: str, last: str = "is_amax_0", more: str = "", first: str = "") -> list[str]:
    """The schemas with tensors and with numbers as scales."""
    return [
        f"{name}({first}{_QKV}, bool requires_backward, str softmax_mode, {scales}, bool is_amax_s, bool {last}, "
        f"{_PADDING}{more}) -> {_SIX}"
        for name, scales in ((name, _TENSORS), (f"{name}.scalar", _NUMBERS))
    ]


@operator(
    *_recomp("fp8_sdpa_recomp_fwd", more=_MORE), *_recomp("fp8_sdpa_recomp_fwd_dropout", more=_MORE),
    *_recomp("fp8_sdpa_recomp_fwd_non_dropout"),
    *_recomp("fp8_sdpa_recomp_fwd_dropout_seed", "is_amax_o", first="Tensor seed, "), of=_OF, named=True,
)  # fmt: skip
def fp8_sdpa_recomp_fwd(a: Arguments) -> tuple[Tensor, ...]:
    """`fp8_sdpa_fwd`'s result; maximum and 1 / sum of each row; the dropout's seed; maxima of softmax and result.

    window_size: keys that a query sees to its left and to its right, -1: all. sinks: a score for each head, which takes
    part in the softmax's sum, and nowhere else.
    """
    return recomputable(a)


@operator(
    "fp8_sdpa_bwd(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor P, Tensor? dm, bool is_causal, float p, "
    "float scale, Tensor? d_scale_q, Tensor? d_scale_k, Tensor? d_scale_v, Tensor? d_scale_s, Tensor? d_scale_do, "
    "Tensor? d_scale_ds, Tensor? q_scale_s, Tensor? q_scale_ds, bool is_amax_ds, Tensor fwd_out)"
    f" -> {_FOUR}",
    of="to, mul, matmul, sum, clamp",
    named=True,
)
def fp8_sdpa_bwd(a: Arguments) -> tuple[Tensor, ...]:
    """Gradients of q, k and v, in bfloat16 for fp8 operands, and the maximum of the scores' gradient.

    P, dm: `fp8_sdpa_fwd`'s probabilities and mask. The gradient of the scores is held as fp8(ds * q_scale_ds) and
    read times d_scale_ds. Each d_scale gives back the values of its operand.
    """
    *results, scores = backward(a)
    return *results, maximum_of(scores, a.is_amax_ds)
