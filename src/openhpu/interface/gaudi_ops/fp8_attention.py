"""Attention on fp8 operands, each with a scale; probabilities are rounded to fp8, too."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from openhpu.interface.gaudi_ops.attention import (
    Masking,
    check_arguments,
    dropped,
    keep_mask,
    repeated,
    scores,
    scores_gradient,
    softmax_parts,
    summed,
)
from openhpu.interface.gaudi_ops.errors import check
from openhpu.interface.gaudi_ops.fp8 import E4M3, Scale, absolute_maximum, is_fp8, no_amax, quantize, scaled
from openhpu.interface.gaudi_ops.registry import operator

Scales = tuple[Scale, Scale, Scale, Scale, Scale, Scale]


def _rounded(x: Tensor, to_fp8: Scale, from_fp8: Scale, name: str) -> tuple[Tensor, Tensor | None]:
    """`x` rounded to fp8 with this scale, in float32, and the fp8 tensor; `x` itself if there is no scale."""
    if to_fp8 is None:
        return x, None
    held = quantize(scaled(x, to_fp8, None, name), E4M3)
    return scaled(held, 1.0 if from_fp8 is None else from_fp8, None, name), held


def attend(
    name: str, q: Tensor, k: Tensor, v: Tensor, p: float, scale: float, softmax_mode: str, masking: Masking,
    scales: Scales, seed: Tensor | None, sinks: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor]:  # fmt: skip
    """The result before its own scale, scores, probabilities as they are held, dropout's mask, exact probabilities."""
    check_arguments(name, q, k, v, p, softmax_mode, masking)
    d_scale_q, d_scale_k, d_scale_v, q_scale_s, _, d_scale_s = scales
    values = [scaled(x, s, None, name) for x, s in ((q, d_scale_q), (k, d_scale_k), (v, d_scale_v))]
    wide_k, wide_v = repeated(q, values[1]), repeated(q, values[2])
    s = scores(values[0], wide_k, scale, masking)
    maximum, reciprocal = softmax_parts(s, sinks)
    exact = torch.exp(s - maximum) * reciprocal
    keep = keep_mask(s, p, seed) if p > 0.0 else None
    used, held = _rounded(exact, q_scale_s, d_scale_s, name)
    stored = exact.to(_plain(q)) if held is None else held
    return torch.matmul(dropped(used, keep, p), wide_v), s, stored, keep, exact


def _plain(q: Tensor) -> torch.dtype:
    """The dtype of results that are not fp8."""
    return torch.bfloat16 if is_fp8(q.dtype) else q.dtype


def _result(name: str, out: Tensor, q: Tensor, q_scale_o: Scale) -> Tensor:
    if q_scale_o is None:
        return out.to(_plain(q))
    return quantize(scaled(out, q_scale_o, None, name), E4M3)


_QKV = "Tensor q, Tensor k, Tensor v, Tensor? attention_mask, float p, float scale, bool is_causal"
_TENSORS = ", ".join(
    f"Tensor? {name}" for name in ("d_scale_q", "d_scale_k", "d_scale_v", "q_scale_s", "q_scale_o", "d_scale_s")
)
_NUMBERS = _TENSORS.replace("Tensor?", "float")
_PADDING = "Tensor? valid_seq_len, str seq_padding_type"
_FOUR = "(Tensor, Tensor, Tensor, Tensor)"
_SIX = "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
_OF = "to, mul, matmul, masked_fill, amax, exp, sum, clamp"


def _forward(
    name: str, seed: Tensor | None, q: Tensor, k: Tensor, v: Tensor, p: float, scale: float, softmax_mode: str,
    masking: Masking, scales: Scales, is_amax_s: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    out, _, stored, keep, exact = attend(name, q, k, v, p, scale, softmax_mode, masking, scales, seed)
    mask = torch.empty(0, dtype=torch.bool, device=q.device) if keep is None else keep
    amax = absolute_maximum(exact) if is_amax_s else no_amax(q)
    return _result(name, out, q, scales[4]), stored, mask, amax


_FWD = f"{_QKV}, str softmax_mode, {_TENSORS}, bool is_amax_s, {_PADDING}) -> {_FOUR}"


@operator(f"fp8_sdpa_fwd({_FWD}", f"fp8_sdpa_fwd_dropout({_FWD}", of=_OF)
def fp8_sdpa_fwd(
    q: Tensor, k: Tensor, v: Tensor, attention_mask: Tensor | None, p: float, scale: float, is_causal: bool,
    softmax_mode: str, d_scale_q: Scale, d_scale_k: Scale, d_scale_v: Scale, q_scale_s: Scale, q_scale_o: Scale,
    d_scale_s: Scale, is_amax_s: bool, valid_seq_len: Tensor | None, seq_padding_type: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Attention of q * d_scale_q, k * d_scale_k, v * d_scale_v; probabilities; dropout's mask; their maximum.

    Probabilities are held as fp8(P * q_scale_s) and read times d_scale_s; the result is fp8(out * q_scale_o), in
    bfloat16 (or q's dtype) where that scale is None. Shapes: `sdpa_fwd`'s; a scale holds one number. The maximum, that
    of the softmax, is empty unless `is_amax_s`. Source: the operator's schema.
    """
    masking = Masking(attention_mask, is_causal, valid_seq_len, seq_padding_type)
    scales = d_scale_q, d_scale_k, d_scale_v, q_scale_s, q_scale_o, d_scale_s
    return _forward("fp8_sdpa_fwd", None, q, k, v, p, scale, softmax_mode, masking, scales, is_amax_s)


@operator(f"fp8_sdpa_fwd_non_dropout({_FWD}", of=_OF)
def fp8_sdpa_fwd_non_dropout(
    q: Tensor, k: Tensor, v: Tensor, attention_mask: Tensor | None, p: float, scale: float, is_causal: bool,
    softmax_mode: str, d_scale_q: Scale, d_scale_k: Scale, d_scale_v: Scale, q_scale_s: Scale, q_scale_o: Scale,
    d_scale_s: Scale, is_amax_s: bool, valid_seq_len: Tensor | None, seq_padding_type: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """`fp8_sdpa_fwd` that drops nothing, whatever p is."""
    masking = Masking(attention_mask, is_causal, valid_seq_len, seq_padding_type)
    scales = d_scale_q, d_scale_k, d_scale_v, q_scale_s, q_scale_o, d_scale_s
    return _forward("fp8_sdpa_fwd_non_dropout", None, q, k, v, 0.0, scale, softmax_mode, masking, scales, is_amax_s)


@operator(f"fp8_sdpa_fwd_dropout_seed(Tensor seed, {_FWD}", of=_OF)
def fp8_sdpa_fwd_dropout_seed(
    seed: Tensor, q: Tensor, k: Tensor, v: Tensor, attention_mask: Tensor | None, p: float, scale: float,
    is_causal: bool, softmax_mode: str, d_scale_q: Scale, d_scale_k: Scale, d_scale_v: Scale, q_scale_s: Scale,
    q_scale_o: Scale, d_scale_s: Scale, is_amax_s: bool, valid_seq_len: Tensor | None, seq_padding_type: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """`fp8_sdpa_fwd` whose dropout is a function of `seed`."""
    masking = Masking(attention_mask, is_causal, valid_seq_len, seq_padding_type)
    scales = d_scale_q, d_scale_k, d_scale_v, q_scale_s, q_scale_o, d_scale_s
    return _forward("fp8_sdpa_fwd_dropout_seed", seed, q, k, v, p, scale, softmax_mode, masking, scales, is_amax_s)


def _recomputable(
    name: str, seed: Tensor | None, q: Tensor, k: Tensor, v: Tensor, p: float, scale: float, softmax_mode: str,
    masking: Masking, scales: Scales, is_amax_s: bool, is_amax_o: bool, sinks: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    if p == 0.0:
        seed = torch.empty(0, dtype=torch.int32, device=q.device)
    elif seed is None:
        seed = torch.randint(0, 2**31 - 1, (1,), dtype=torch.int32, device=q.device)
    out, s, _, _, exact = attend(name, q, k, v, p, scale, softmax_mode, masking, scales, seed, sinks)
    maximum, reciprocal = softmax_parts(s, sinks)
    amax_s = absolute_maximum(exact) if is_amax_s else no_amax(q)
    amax_o = absolute_maximum(out) if is_amax_o else no_amax(q)
    return _result(name, out, q, scales[4]), maximum, reciprocal, seed, amax_s, amax_o


_MORE = ", int[2] window_size=[-1, -1], Tensor? sinks=None"


def _recomp(scales: str, last: str = "is_amax_0", more: str = "") -> str:
    return (
        f"{_QKV}, bool requires_backward, str softmax_mode, {scales}, bool is_amax_s, bool {last}, {_PADDING}{more})"
        f" -> {_SIX}"
    )


@operator(
    f"fp8_sdpa_recomp_fwd({_recomp(_TENSORS, more=_MORE)}",
    f"fp8_sdpa_recomp_fwd.scalar({_recomp(_NUMBERS, more=_MORE)}",
    f"fp8_sdpa_recomp_fwd_dropout({_recomp(_TENSORS, more=_MORE)}",
    f"fp8_sdpa_recomp_fwd_dropout.scalar({_recomp(_NUMBERS, more=_MORE)}",
    of=_OF,
)
def fp8_sdpa_recomp_fwd(
    q: Tensor, k: Tensor, v: Tensor, attention_mask: Tensor | None, p: float, scale: float, is_causal: bool,
    requires_backward: bool, softmax_mode: str, d_scale_q: Scale, d_scale_k: Scale, d_scale_v: Scale,
    q_scale_s: Scale, q_scale_o: Scale, d_scale_s: Scale, is_amax_s: bool, is_amax_0: bool,
    valid_seq_len: Tensor | None, seq_padding_type: str, window_size: Sequence[int] = (-1, -1),
    sinks: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """`fp8_sdpa_fwd`'s result; maximum and 1 / sum of each row; the dropout's seed; maxima of softmax and result.

    window_size: keys that a query sees to its left and to its right, -1: all. sinks: a score for each head, which takes
    part in the softmax's sum, and nowhere else.
    """
    name = "fp8_sdpa_recomp_fwd"
    check(len(window_size) == 2, name, "window_size", list(window_size), "two numbers, of keys to the left and right")
    check(
        sinks is None or sinks.numel() == q.shape[-3], name, "sinks", sinks,
        f"one score for each of the {q.shape[-3]} heads",
    )  # fmt: skip
    window = None if max(window_size) < 0 else (window_size[0], window_size[1])
    masking = Masking(attention_mask, is_causal, valid_seq_len, seq_padding_type, window)
    scales = d_scale_q, d_scale_k, d_scale_v, q_scale_s, q_scale_o, d_scale_s
    return _recomputable(name, None, q, k, v, p, scale, softmax_mode, masking, scales, is_amax_s, is_amax_0, sinks)


@operator(
    f"fp8_sdpa_recomp_fwd_non_dropout({_recomp(_TENSORS)}",
    f"fp8_sdpa_recomp_fwd_non_dropout.scalar({_recomp(_NUMBERS)}",
    of=_OF,
)
def fp8_sdpa_recomp_fwd_non_dropout(
    q: Tensor, k: Tensor, v: Tensor, attention_mask: Tensor | None, p: float, scale: float, is_causal: bool,
    requires_backward: bool, softmax_mode: str, d_scale_q: Scale, d_scale_k: Scale, d_scale_v: Scale,
    q_scale_s: Scale, q_scale_o: Scale, d_scale_s: Scale, is_amax_s: bool, is_amax_0: bool,
    valid_seq_len: Tensor | None, seq_padding_type: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """`fp8_sdpa_recomp_fwd` that drops nothing, whatever p is."""
    return fp8_sdpa_recomp_fwd(
        q, k, v, attention_mask, 0.0, scale, is_causal, requires_backward, softmax_mode, d_scale_q, d_scale_k,
        d_scale_v, q_scale_s, q_scale_o, d_scale_s, is_amax_s, is_amax_0, valid_seq_len, seq_padding_type,
    )  # fmt: skip


@operator(
    f"fp8_sdpa_recomp_fwd_dropout_seed(Tensor seed, {_recomp(_TENSORS, 'is_amax_o')}",
    f"fp8_sdpa_recomp_fwd_dropout_seed.scalar(Tensor seed, {_recomp(_NUMBERS, 'is_amax_o')}",
    of=_OF,
)
def fp8_sdpa_recomp_fwd_dropout_seed(
    seed: Tensor, q: Tensor, k: Tensor, v: Tensor, attention_mask: Tensor | None, p: float, scale: float,
    is_causal: bool, requires_backward: bool, softmax_mode: str, d_scale_q: Scale, d_scale_k: Scale, d_scale_v: Scale,
    q_scale_s: Scale, q_scale_o: Scale, d_scale_s: Scale, is_amax_s: bool, is_amax_o: bool,
    valid_seq_len: Tensor | None, seq_padding_type: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """`fp8_sdpa_recomp_fwd` whose dropout is a function of `seed`."""
    masking = Masking(attention_mask, is_causal, valid_seq_len, seq_padding_type)
    scales = d_scale_q, d_scale_k, d_scale_v, q_scale_s, q_scale_o, d_scale_s
    return _recomputable(
        "fp8_sdpa_recomp_fwd_dropout_seed", seed, q, k, v, p, scale, softmax_mode, masking, scales, is_amax_s, is_amax_o
    )


@operator(
    "fp8_sdpa_bwd(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor P, Tensor? dm, bool is_causal, float p, "
    "float scale, Tensor? d_scale_q, Tensor? d_scale_k, Tensor? d_scale_v, Tensor? d_scale_s, Tensor? d_scale_do, "
    "Tensor? d_scale_ds, Tensor? q_scale_s, Tensor? q_scale_ds, bool is_amax_ds, Tensor fwd_out)"
    f" -> {_FOUR}",
    of="to, mul, matmul, sum, clamp",
)
def fp8_sdpa_bwd(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, P: Tensor, dm: Tensor | None, is_causal: bool, p: float,
    scale: float, d_scale_q: Scale, d_scale_k: Scale, d_scale_v: Scale, d_scale_s: Scale, d_scale_do: Scale,
    d_scale_ds: Scale, q_scale_s: Scale, q_scale_ds: Scale, is_amax_ds: bool, fwd_out: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients of q, k and v, in bfloat16 for fp8 operands, and the maximum of the scores' gradient.

    P, dm: `fp8_sdpa_fwd`'s probabilities and mask. The gradient of the scores is held as fp8(ds * q_scale_ds) and
    read times d_scale_ds. Each d_scale gives back the values of its operand.
    """
    name = "fp8_sdpa_bwd"
    check(grad.shape == fwd_out.shape, name, "grad", grad, f"a tensor of shape {list(fwd_out.shape)}")
    wide_q, wide_k, wide_v, wide = (
        scaled(x, s, None, name) for x, s in ((q, d_scale_q), (k, d_scale_k), (v, d_scale_v), (grad, d_scale_do))
    )
    probabilities = scaled(P, d_scale_s if is_fp8(P.dtype) else None, None, name)
    many_k, many_v = repeated(q, wide_k), repeated(q, wide_v)
    weights = dropped(probabilities, dm if dm is not None and dm.numel() > 0 and p > 0.0 else None, p)
    grad_v = torch.matmul(weights.transpose(-1, -2), wide)
    grad_s = scores_gradient(torch.matmul(wide, many_v.transpose(-1, -2)), probabilities, weights) * scale
    held, _ = _rounded(grad_s, q_scale_ds, d_scale_ds, name)
    grad_q, grad_k = torch.matmul(held, many_k), torch.matmul(held.transpose(-1, -2), wide_q)
    amax = absolute_maximum(grad_s) if is_amax_ds else no_amax(q)
    dtype = _plain(q)
    return grad_q.to(dtype), summed(grad_k, k).to(dtype), summed(grad_v, v).to(dtype), amax
