"""Attention on fp8 operands, each with a scale; probabilities are rounded to fp8, too."""

from __future__ import annotations

import torch
from torch import Tensor

from openhpu.interface.gaudi_ops.attention import (
    Masking,
    check_arguments,
    dropped,
    keep_mask,
    kept,
    masking_of,
    no_mask,
    repeated,
    scores,
    scores_gradient,
    seed_of,
    softmax_parts,
    summed,
)
from openhpu.interface.gaudi_ops.errors import check
from openhpu.interface.gaudi_ops.fp8 import E4M3, Scale, absolute_maximum, is_fp8, no_amax, quantize, scaled
from openhpu.interface.gaudi_ops.registry import Arguments, operator


def _rounded(x: Tensor, to_fp8: Scale, from_fp8: Scale, name: str) -> tuple[Tensor, Tensor | None]:
    """`x` rounded to fp8 with this scale, in float32, and the fp8 tensor; `x` itself if there is no scale."""
    if to_fp8 is None:
        return x, None
    held = quantize(scaled(x, to_fp8, None, name), E4M3)
    return scaled(held, 1.0 if from_fp8 is None else from_fp8, None, name), held


def attend(
    a: Arguments, masking: Masking, seed: Tensor | None, sinks: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor]:
    """The result before its own scale, scores, probabilities as they are held, dropout's mask, exact probabilities."""
    name, q = a.operator, a.q
    check_arguments(name, q, a.k, a.v, a.p, a.softmax_mode, masking)
    values = [scaled(x, s, None, name) for x, s in ((q, a.d_scale_q), (a.k, a.d_scale_k), (a.v, a.d_scale_v))]
    wide_k, wide_v = repeated(q, values[1]), repeated(q, values[2])
    s = scores(values[0], wide_k, a.scale, masking)
    maximum, reciprocal = softmax_parts(s, sinks)
    exact = torch.exp(s - maximum) * reciprocal
    keep = keep_mask(s, a.p, seed) if a.p > 0.0 else None
    used, held = _rounded(exact, a.q_scale_s, a.d_scale_s, name)
    stored = exact.to(_plain(q)) if held is None else held
    return torch.matmul(dropped(used, keep, a.p), wide_v), s, stored, keep, exact


def _plain(q: Tensor) -> torch.dtype:
    """The dtype of results that are not fp8."""
    return torch.bfloat16 if is_fp8(q.dtype) else q.dtype


def _result(a: Arguments, out: Tensor) -> Tensor:
    if a.q_scale_o is None:
        return out.to(_plain(a.q))
    return quantize(scaled(out, a.q_scale_o, None, a.operator), E4M3)


def _maximum(wanted: bool, x: Tensor) -> Tensor:
    return absolute_maximum(x) if wanted else no_amax(x)


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
    f"fp8_sdpa_fwd({_FWD}", f"fp8_sdpa_fwd_dropout({_FWD}", f"fp8_sdpa_fwd_dropout_seed(Tensor seed, {_FWD}", of=_OF,
    named=True,
)  # fmt: skip
def fp8_sdpa_fwd(a: Arguments) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Attention of q * d_scale_q, k * d_scale_k, v * d_scale_v; probabilities; dropout's mask; their maximum.

    Probabilities are held as fp8(P * q_scale_s) and read times d_scale_s; the result is fp8(out * q_scale_o), in
    bfloat16 (or q's dtype) where that scale is None. Shapes: `sdpa_fwd`'s; a scale holds one number. Dropout is a
    function of `seed`, if that is given. The maximum, that of the softmax, is empty unless `is_amax_s`. Source: the
    operator's schema.
    """
    out, _, stored, keep, exact = attend(a, masking_of(a), getattr(a, "seed", None))
    return _result(a, out), stored, no_mask(a.q) if keep is None else keep, _maximum(a.is_amax_s, exact)


@operator(f"fp8_sdpa_fwd_non_dropout({_FWD}", of=_OF, named=True)
def fp8_sdpa_fwd_non_dropout(a: Arguments) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`fp8_sdpa_fwd` that drops nothing, whatever p is."""
    a.p = 0.0
    return fp8_sdpa_fwd(a)


_MORE = ", int[2] window_size=[-1, -1], Tensor? sinks=None"


def _recomp(name: str, last: str = "is_amax_0", more: str = "", first: str = "") -> list[str]:
    """The schemas with tensors and with numbers as scales."""
    return [
        f"{name}({first}{_QKV}, bool requires_backward, str softmax_mode, {scales}, bool is_amax_s, bool {last}, "
        f"{_PADDING}{more}) -> {_SIX}"
        for name, scales in ((name, _TENSORS), (f"{name}.scalar", _NUMBERS))
    ]


def _recomputed(a: Arguments, is_amax_o: bool, masking: Masking, sinks: Tensor | None = None) -> tuple[Tensor, ...]:
    seed = seed_of(a)
    out, s, _, _, exact = attend(a, masking, seed, sinks)
    maximum, reciprocal = softmax_parts(s, sinks)
    return _result(a, out), maximum, reciprocal, seed, _maximum(a.is_amax_s, exact), _maximum(is_amax_o, out)


@operator(
    *_recomp("fp8_sdpa_recomp_fwd", more=_MORE), *_recomp("fp8_sdpa_recomp_fwd_dropout", more=_MORE), of=_OF, named=True
)
def fp8_sdpa_recomp_fwd(a: Arguments) -> tuple[Tensor, ...]:
    """`fp8_sdpa_fwd`'s result; maximum and 1 / sum of each row; the dropout's seed; maxima of softmax and result.

    window_size: keys that a query sees to its left and to its right, -1: all. sinks: a score for each head, which takes
    part in the softmax's sum, and nowhere else.
    """
    name, size, heads = a.operator, list(a.window_size), a.q.shape[-3]
    check(len(size) == 2, name, "window_size", size, "two numbers, of keys to the left and right")
    fits = a.sinks is None or a.sinks.numel() == heads
    check(fits, name, "sinks", a.sinks, f"one score for each of the {heads} heads")
    masking = masking_of(a, None if max(size) < 0 else (size[0], size[1]))
    return _recomputed(a, a.is_amax_0, masking, a.sinks)


@operator(*_recomp("fp8_sdpa_recomp_fwd_non_dropout"), of=_OF, named=True)
def fp8_sdpa_recomp_fwd_non_dropout(a: Arguments) -> tuple[Tensor, ...]:
    """`fp8_sdpa_recomp_fwd` that drops nothing, whatever p is."""
    a.p = 0.0
    return _recomputed(a, a.is_amax_0, masking_of(a))


@operator(*_recomp("fp8_sdpa_recomp_fwd_dropout_seed", "is_amax_o", first="Tensor seed, "), of=_OF, named=True)
def fp8_sdpa_recomp_fwd_dropout_seed(a: Arguments) -> tuple[Tensor, ...]:
    """`fp8_sdpa_recomp_fwd` whose dropout is a function of `seed`."""
    return _recomputed(a, a.is_amax_o, masking_of(a))


@operator(
    "fp8_sdpa_bwd(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor P, Tensor? dm, bool is_causal, float p, "
    "float scale, Tensor? d_scale_q, Tensor? d_scale_k, Tensor? d_scale_v, Tensor? d_scale_s, Tensor? d_scale_do, "
    "Tensor? d_scale_ds, Tensor? q_scale_s, Tensor? q_scale_ds, bool is_amax_ds, Tensor fwd_out)"
    f" -> {_FOUR}",
    of="to, mul, matmul, sum, clamp",
    named=True,
)
def fp8_sdpa_bwd(a: Arguments) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of q, k and v, in bfloat16 for fp8 operands, and the maximum of the scores' gradient.

    P, dm: `fp8_sdpa_fwd`'s probabilities and mask. The gradient of the scores is held as fp8(ds * q_scale_ds) and
    read times d_scale_ds. Each d_scale gives back the values of its operand.
    """
    name, q, k, v, grad = a.operator, a.q, a.k, a.v, a.grad
    check(grad.shape == a.fwd_out.shape, name, "grad", grad, f"a tensor of shape {list(a.fwd_out.shape)}")
    pairs = (q, a.d_scale_q), (k, a.d_scale_k), (v, a.d_scale_v), (grad, a.d_scale_do)
    wide_q, wide_k, wide_v, wide = (scaled(x, s, None, name) for x, s in pairs)
    probabilities = scaled(a.P, a.d_scale_s if is_fp8(a.P.dtype) else None, None, name)
    many_k, many_v = repeated(q, wide_k), repeated(q, wide_v)
    weights = dropped(probabilities, kept(a), a.p)
    grad_v = torch.matmul(weights.transpose(-1, -2), wide)
    grad_s = scores_gradient(torch.matmul(wide, many_v.transpose(-1, -2)), probabilities, weights) * a.scale
    held, _ = _rounded(grad_s, a.q_scale_ds, a.d_scale_ds, name)
    grad_q, grad_k = torch.matmul(held, many_k), torch.matmul(held.transpose(-1, -2), wide_q)
    dtype = _plain(q)
    results = grad_q.to(dtype), summed(grad_k, k).to(dtype), summed(grad_v, v).to(dtype)
    return *results, _maximum(a.is_amax_ds, grad_s)
