"""Scaled dot-product attention in Gaudi's forms: it saves its probabilities for backward, or computes them again.

`hpex.kernels.FusedSDPA` calls PyTorch's operator where it can. These operators are for scripts that call them by name,
and for arguments that PyTorch's operator does not have: padded lengths, windows, sinks, probabilities, and scales of
fp8 operands (`fp8_attention`). They compute in float32.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from openhpu.interface.gaudi_ops import operators
from openhpu.interface.gaudi_ops.errors import check, expect
from openhpu.interface.gaudi_ops.fp8 import E4M3, Scale, is_fp8, maximum_of, quantize, scaled

SOFTMAX_MODES = ("None", "fast", "fp32")
Window = tuple[int, int]


class Scales(NamedTuple):
    """Of operands in fp8, one number each; None where an operand has none.

    `d_`: gives back the values of what is held in fp8. `q_`: what is rounded to fp8 is multiplied by it first. Of q, k
    and v; s: the probabilities; o: the result; do: its gradient; ds: the gradient of the scores.
    """

    d_q: Scale = None
    d_k: Scale = None
    d_v: Scale = None
    q_s: Scale = None
    d_s: Scale = None
    q_o: Scale = None
    d_do: Scale = None
    q_ds: Scale = None
    d_ds: Scale = None


class Attention(NamedTuple):
    """One call of attention.

    q: [..., heads, Sq, D]; k: [..., heads or a divisor, Sk, D]; v: [..., Sk, E]. `attention_mask`: bool (True: seen),
    or added to the scores. `p`: of dropout. `valid_seq_len`: [batch], valid keys, with the padding on the side
    `seq_padding_type`. `window`: keys that a query sees to its left and right, -1: all. `sinks`: a score for each head,
    in the sum of the softmax. `seed`: of dropout. `operator`: the name in errors.
    """

    operator: str
    q: Tensor
    k: Tensor
    v: Tensor
    attention_mask: Tensor | None
    p: float
    scale: float | None
    is_causal: bool
    softmax_mode: str = "None"
    valid_seq_len: Tensor | None = None
    seq_padding_type: str = "left"
    window: Window | None = None
    sinks: Tensor | None = None
    seed: Tensor | None = None
    scales: Scales = Scales()


def check_arguments(call: Attention) -> None:
    """Raise RuntimeError for arguments that no form of attention takes."""
    name, q, k, v = call.operator, call.q, call.k, call.v
    for argument, tensor in (("q", q), ("k", k), ("v", v)):
        check(tensor.is_floating_point(), name, argument, tensor, "a floating-point tensor")
        check(tensor.dim() >= 3, name, argument, tensor, "[..., heads, length, dimension]")
    check(q.shape[-1] == k.shape[-1], name, "k", k, f"a last dimension of {q.shape[-1]}, as q's")
    check(k.shape[-2] == v.shape[-2], name, "v", v, f"{k.shape[-2]} positions, as k's")
    check(k.shape[-3] == v.shape[-3], name, "v", v, f"{k.shape[-3]} heads, as k's")
    check(q.shape[-3] % k.shape[-3] == 0, name, "k", k, f"a number of heads that divides q's {q.shape[-3]}")
    check(0.0 <= call.p < 1.0, name, "p", call.p, "a probability of dropout, at least 0 and less than 1")
    mode = call.softmax_mode
    check(mode in SOFTMAX_MODES, name, "softmax_mode", mode, f"one of {', '.join(SOFTMAX_MODES)}")
    lengths, side = call.valid_seq_len, call.seq_padding_type
    if lengths is not None:
        fits = lengths.shape == q.shape[:1]
        check(fits, name, "valid_seq_len", lengths, f"one length for each of the {q.shape[0]} sequences")
        check(side in ("left", "right"), name, "seq_padding_type", side, "left or right")


def default_scale(q: Tensor, scale: float | None) -> float:
    """`scale`, or PyTorch's default."""
    return 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale


def visible(call: Attention) -> Tensor | None:
    """Which keys a query may see, apart from the mask: a bool tensor that broadcasts to the scores, or None for all.

    What a query does not see: with `is_causal` later keys; with `valid_seq_len` padding; with `window` those beyond it.
    """
    length, lengths = call.k.shape[-2], call.valid_seq_len
    rows = torch.arange(call.q.shape[-2], device=call.q.device).unsqueeze(-1)
    columns = torch.arange(length, device=call.q.device)
    seen = columns <= rows if call.is_causal else None
    left, right = call.window or (-1, -1)
    if left >= 0:
        seen = _both(seen, columns >= rows - left)
    if right >= 0:
        seen = _both(seen, columns <= rows + right)
    if lengths is not None:
        lengths = lengths.reshape(-1, *[1] * (call.q.dim() - 1))
        seen = _both(seen, columns < lengths if call.seq_padding_type == "right" else columns >= length - lengths)
    return seen


def _both(a: Tensor | None, b: Tensor) -> Tensor:
    return b if a is None else a & b


def scores(call: Attention) -> Tensor:
    """q @ k^T * scale in float32, -inf where a query may not see a key."""
    keys = repeated(call.q, _wide(call, call.k, call.scales.d_k))
    out = torch.matmul(_wide(call, call.q, call.scales.d_q), keys.transpose(-1, -2))
    out = out * default_scale(call.q, call.scale)
    seen, mask = visible(call), call.attention_mask
    if mask is not None and mask.dtype is torch.bool:
        seen = _both(seen, mask)
    elif mask is not None:
        out = out + mask
    return out if seen is None else out.masked_fill(~seen, -math.inf)


def _wide(call: Attention, operand: Tensor, scale: Scale) -> Tensor:
    """The operand in float32, times its scale."""
    return scaled(operand, scale, None, call.operator).float()


def _rounded(call: Attention, x: Tensor, to_fp8: Scale, from_fp8: Scale) -> tuple[Tensor, Tensor | None]:
    """`x` rounded to fp8 with a scale, in float32, and the fp8 tensor; `x` itself without one."""
    if to_fp8 is None:
        return x, None
    held = quantize(scaled(x, to_fp8, None, call.operator), E4M3)
    return scaled(held, 1.0 if from_fp8 is None else from_fp8, None, call.operator), held


def _plain(x: Tensor) -> torch.dtype:
    """The dtype of results that are not fp8."""
    return torch.bfloat16 if is_fp8(x.dtype) else x.dtype


def softmax_parts(s: Tensor, sinks: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Of each row its maximum and 1 / sum(exp(s - maximum)); 0 and 0 for a row that sees nothing.

    `sinks`: a score for each head that takes part in the sum, and nowhere else.
    """
    maximum = s.amax(-1, keepdim=True)
    if sinks is not None:
        sinks = sinks.float().reshape(*([1] * (s.dim() - 3)), -1, 1, 1)
        maximum = torch.maximum(maximum, sinks)
    maximum = torch.where(maximum == -math.inf, 0.0, maximum)
    total = torch.exp(s - maximum).sum(-1, keepdim=True)
    if sinks is not None:
        total = total + torch.exp(sinks - maximum)
    return maximum, torch.where(total == 0.0, 0.0, 1.0 / total)


def repeated(q: Tensor, k: Tensor) -> Tensor:
    """`k`, each head as often as q has heads for it."""
    groups = q.shape[-3] // k.shape[-3]
    if groups == 1 or q.dim() > 4:
        return k
    return k.unsqueeze(-3).expand(*k.shape[:-2], groups, *k.shape[-2:]).flatten(-4, -3)


def keep_mask(s: Tensor, p: float, seed: Tensor | None) -> Tensor:
    """True where dropout keeps a probability: a function of the seed if there is one."""
    if seed is None:
        return torch.rand_like(s) >= p
    from openhpu.interface.gaudi_ops.seeded import uniform

    return uniform(seed, s.shape, s.device) >= p


class Attended(NamedTuple):
    """The result before its own scale, in float32; probabilities as they are, and as they are held; dropout's mask; of
    each row of scores its maximum, and 1 / the sum of exponentials."""

    out: Tensor
    exact: Tensor
    held: Tensor
    keep: Tensor | None
    maximum: Tensor
    reciprocal: Tensor


def attend(call: Attention) -> Attended:
    """Attention. Raises RuntimeError for arguments that do not fit."""
    check_arguments(call)
    s = scores(call)
    maximum, reciprocal = softmax_parts(s, call.sinks)
    exact = torch.exp(s - maximum) * reciprocal
    keep = keep_mask(s, call.p, call.seed) if call.p > 0.0 else None
    used, held = _rounded(call, exact, call.scales.q_s, call.scales.d_s)
    out = torch.matmul(dropped(used, keep, call.p), repeated(call.q, _wide(call, call.v, call.scales.d_v)))
    return Attended(out, exact, exact.to(_plain(call.q)) if held is None else held, keep, maximum, reciprocal)


def gradients(
    call: Attention, grad: Tensor, probabilities: Tensor, keep: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of q, k and v, in their dtypes, bfloat16 for fp8; of the scores. From the probabilities before dropout."""
    wide = _wide(call, grad, call.scales.d_do)
    weights = dropped(probabilities, keep, call.p)
    grad_v = torch.matmul(weights.transpose(-1, -2), wide)
    many_v = repeated(call.q, _wide(call, call.v, call.scales.d_v))
    product = weights * torch.matmul(wide, many_v.transpose(-1, -2))
    grad_s = (product - probabilities * product.sum(-1, keepdim=True)) * default_scale(call.q, call.scale)
    held, _ = _rounded(call, grad_s, call.scales.q_ds, call.scales.d_ds)
    grad_q = torch.matmul(held, repeated(call.q, _wide(call, call.k, call.scales.d_k)))
    grad_k = torch.matmul(held.transpose(-1, -2), _wide(call, call.q, call.scales.d_q))
    pairs = (grad_q, call.q), (summed(grad_k, call.k), call.k), (summed(grad_v, call.v), call.v)
    grad_q, grad_k, grad_v = (grad.to(_plain(x)) for grad, x in pairs)
    return grad_q, grad_k, grad_v, grad_s


def dropped(probabilities: Tensor, keep: Tensor | None, p: float) -> Tensor:
    """The probabilities after dropout."""
    return probabilities if keep is None else probabilities * keep * (1.0 / (1.0 - p))


def summed(grad: Tensor, like: Tensor) -> Tensor:
    """The sum over the dimensions that `repeated` or a product's broadcasting multiplied."""
    if grad.shape == like.shape:
        return grad
    if grad.dim() == like.dim() and grad.dim() > 4:
        return grad.sum_to_size(*like.shape)
    heads = like.shape[-3]
    grouped = grad.reshape(*grad.shape[:-3], heads, grad.shape[-3] // heads, *grad.shape[-2:])
    return grouped.sum(-3)


def dropout_of(operator: str, p: float) -> float:
    """The probability of dropout: operators whose names end in `non_dropout` drop nothing, whatever p is."""
    return 0.0 if operator.endswith("_non_dropout") else p


def seed_of(call: Attention) -> Tensor:
    """The seed of dropout: the one that is given, or a new one; empty without dropout."""
    if call.p == 0.0:
        return torch.empty(0, dtype=torch.int32, device=call.q.device)
    if call.seed is not None:
        return call.seed
    return torch.randint(0, 2**31 - 1, (1,), dtype=torch.int32, device=call.q.device)


def _result(call: Attention, found: Attended) -> Tensor:
    """The result with its own scale, in fp8 if it has one."""
    scale = call.scales.q_o
    if scale is None:
        return found.out.to(_plain(call.q))
    return quantize(scaled(found.out, scale, None, call.operator), E4M3)


def forward(call: Attention, wants_maximum: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The result; the probabilities before dropout, as they are held; True where dropout keeps one, empty if p is 0;
    the maximum of the probabilities if wanted."""
    found = attend(call)
    keep = torch.empty(0, dtype=torch.bool, device=call.q.device) if found.keep is None else found.keep
    return _result(call, found), found.held, keep, maximum_of(found.exact, wants_maximum)


def recomputable(call: Attention, wants_maximum: bool, wants_result_maximum: bool) -> tuple[Tensor, ...]:
    """`forward`'s first result; of each row of scores its maximum and 1 / the sum of exponentials; the dropout's seed;
    the maxima of probabilities and result if wanted."""
    call = call._replace(seed=seed_of(call))
    found = attend(call)
    maxima = maximum_of(found.exact, wants_maximum), maximum_of(found.out, wants_result_maximum)
    assert call.seed is not None
    return _result(call, found), found.maximum, found.reciprocal, call.seed, *maxima


def backward(call: Attention, grad: Tensor, P: Tensor, dm: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`gradients`, from the probabilities P and the mask of dropout dm that `forward` has returned."""
    keep = dm if dm is not None and dm.numel() > 0 and call.p > 0.0 else None
    probabilities = _wide(call, P, call.scales.d_s) if is_fp8(P.dtype) else P.float()
    return gradients(call, grad, probabilities, keep)


def forward_call(
    a: operators.SdpaFwd | operators.SdpaRecompFwd | operators.Fp8SdpaFwd | operators.Fp8SdpaRecompFwd,
) -> Attention:
    """The call of a forward operator, without what only fp8 operands have."""
    return Attention(
        operator=a.operator,
        q=a.q,
        k=a.k,
        v=a.v,
        attention_mask=a.attention_mask,
        p=dropout_of(a.operator, a.p),
        scale=a.scale,
        is_causal=a.is_causal,
        softmax_mode=a.softmax_mode,
        valid_seq_len=a.valid_seq_len,
        seq_padding_type=a.seq_padding_type,
        seed=a.seed,
    )


def sdpa_fwd(a: operators.SdpaFwd) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """softmax(q @ k^T * scale + mask) @ v; the probabilities before dropout; True where dropout keeps one.

    q: [..., heads, Sq, D]; k: [..., heads or a divisor, Sk, D]; v: [..., Sk, E]; mask: bool (True: seen) or added;
    valid_seq_len: [batch]. The third result is empty if p is 0. Dropout is a function of `seed`, an integer tensor of
    one element, if that is given. `non_dropout` drops nothing, whatever p is. Raises RuntimeError for arguments that do
    not fit.
    Source: the operator's schema; the formula is that of torch.nn.functional.scaled_dot_product_attention.
    """
    return forward(forward_call(a), wants_maximum=False)


def sdpa_recomp_fwd(a: operators.SdpaRecompFwd) -> tuple[Tensor, ...]:
    """`sdpa_fwd`'s first result; of each row of scores its maximum and 1 / the sum of exponentials; the seed."""
    return recomputable(forward_call(a), wants_maximum=False, wants_result_maximum=False)


def sdpa_bwd(a: operators.SdpaBwd) -> tuple[Tensor, ...]:
    """Gradients of q, k and v, from the probabilities and the mask of dropout that `sdpa_fwd` has returned."""
    expect(a, "grad", a.grad.shape == a.fwd_out.shape, f"a tensor of shape {list(a.fwd_out.shape)}")
    call = Attention(a.operator, a.q, a.k, a.v, None, a.p, a.scale, a.is_causal)
    return backward(call, a.grad, a.P, a.dm)


def sdpa_recomp_bwd(a: operators.SdpaRecompBwd) -> tuple[Tensor, ...]:
    """Gradients of q, k and v; the probabilities are computed again, from the results of `sdpa_recomp_fwd`."""
    expect(a, "grad", a.grad.shape == a.fwd_out.shape, f"a tensor of shape {list(a.fwd_out.shape)}")
    call = Attention(a.operator, a.q, a.k, a.v, a.attention_mask, a.p, a.scale, a.is_causal, seed=a.seed)
    s = scores(call)
    keep = None
    if a.p > 0.0:
        expect(a, "seed", a.seed is not None and a.seed.numel() > 0, "the seed of the forward's dropout")
        keep = keep_mask(s, a.p, a.seed)
    return gradients(call, a.grad, torch.exp(s - a.m) * a.linv, keep)
