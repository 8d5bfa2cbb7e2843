"""Scaled dot-product attention in Gaudi's forms: it saves its probabilities for backward, or computes them again.

`hpex.kernels.FusedSDPA` calls PyTorch's operator where it can. These operators are for scripts that call them by name,
and for arguments that PyTorch's operator does not have: padded lengths, windows, sinks, probabilities, and scales of
fp8 operands (`fp8_attention`). They compute in float32.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from openhpu.interface.gaudi_ops.errors import check, expect
from openhpu.interface.gaudi_ops.fp8 import E4M3, is_fp8, maximum_of, quantize, scaled
from openhpu.interface.gaudi_ops.registry import Arguments

SOFTMAX_MODES = ("None", "fast", "fp32")
Window = tuple[int, int]


def check_arguments(a: Arguments) -> None:
    """Raise RuntimeError for arguments that no form of attention takes."""
    name, q, k, v = a.operator, a.q, a.k, a.v
    for argument, tensor in (("q", q), ("k", k), ("v", v)):
        check(tensor.is_floating_point(), name, argument, tensor, "a floating-point tensor")
        check(tensor.dim() >= 3, name, argument, tensor, "[..., heads, length, dimension]")
    check(q.shape[-1] == k.shape[-1], name, "k", k, f"a last dimension of {q.shape[-1]}, as q's")
    check(k.shape[-2] == v.shape[-2], name, "v", v, f"{k.shape[-2]} positions, as k's")
    check(k.shape[-3] == v.shape[-3], name, "v", v, f"{k.shape[-3]} heads, as k's")
    check(q.shape[-3] % k.shape[-3] == 0, name, "k", k, f"a number of heads that divides q's {q.shape[-3]}")
    expect(a, "p", 0.0 <= a.p < 1.0, "a probability of dropout, at least 0 and less than 1")
    expect(a, "softmax_mode", a.softmax_mode in SOFTMAX_MODES, f"one of {', '.join(SOFTMAX_MODES)}")
    if getattr(a, "valid_seq_len", None) is not None:
        fits = a.valid_seq_len.shape == q.shape[:1]
        expect(a, "valid_seq_len", fits, f"one length for each of the {q.shape[0]} sequences")
        expect(a, "seq_padding_type", a.seq_padding_type in ("left", "right"), "left or right")


def default_scale(q: Tensor, scale: float | None) -> float:
    """`scale`, or PyTorch's default."""
    return 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale


def visible(a: Arguments) -> Tensor | None:
    """Which keys a query may see, apart from the mask: a bool tensor that broadcasts to the scores, or None for all.

    What a query does not see: with `is_causal` later keys; with `valid_seq_len`, [batch] valid keys, padding; with
    `window` those beyond so many keys to the left and to the right of its own, -1: all.
    """
    length, lengths = a.k.shape[-2], getattr(a, "valid_seq_len", None)
    rows = torch.arange(a.q.shape[-2], device=a.q.device).unsqueeze(-1)
    columns = torch.arange(length, device=a.q.device)
    seen = columns <= rows if a.is_causal else None
    left, right = getattr(a, "window", None) or (-1, -1)
    if left >= 0:
        seen = _both(seen, columns >= rows - left)
    if right >= 0:
        seen = _both(seen, columns <= rows + right)
    if lengths is not None:
        lengths = lengths.reshape(-1, *[1] * (a.q.dim() - 1))
        seen = _both(seen, columns < lengths if a.seq_padding_type == "right" else columns >= length - lengths)
    return seen


def _both(a: Tensor | None, b: Tensor) -> Tensor:
    return b if a is None else a & b


def scores(a: Arguments) -> Tensor:
    """q @ k^T * scale in float32, -inf where a query may not see a key."""
    keys = repeated(a.q, _wide(a, "k"))
    out = torch.matmul(_wide(a, "q"), keys.transpose(-1, -2)) * default_scale(a.q, a.scale)
    seen, mask = visible(a), a.attention_mask
    if mask is not None and mask.dtype is torch.bool:
        seen = _both(seen, mask)
    elif mask is not None:
        out = out + mask
    return out if seen is None else out.masked_fill(~seen, -math.inf)


def _wide(a: Arguments, name: str, scale: str = "") -> Tensor:
    """The operand of that name in float32, times its scale if it has one."""
    return scaled(getattr(a, name), getattr(a, f"d_scale_{scale or name}", None), None, a.operator).float()


def _rounded(a: Arguments, x: Tensor, name: str) -> tuple[Tensor, Tensor | None]:
    """`x` rounded to fp8 with the scale of that name, in float32, and the fp8 tensor; `x` itself if there is none."""
    to_fp8, from_fp8 = getattr(a, f"q_scale_{name}", None), getattr(a, f"d_scale_{name}", None)
    if to_fp8 is None:
        return x, None
    held = quantize(scaled(x, to_fp8, None, a.operator), E4M3)
    return scaled(held, 1.0 if from_fp8 is None else from_fp8, None, a.operator), held


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


def attend(a: Arguments) -> Attended:
    """Attention of `a.q`, `a.k` and `a.v`, with `a.scale`, dropout `a.p`, and the scales of fp8, the seed and the sinks
    that `a` has. `attention_mask`: bool (True: seen), or added to the scores."""
    check_arguments(a)
    s = scores(a)
    maximum, reciprocal = softmax_parts(s, getattr(a, "sinks", None))
    exact = torch.exp(s - maximum) * reciprocal
    keep = keep_mask(s, a.p, getattr(a, "seed", None)) if a.p > 0.0 else None
    used, held = _rounded(a, exact, "s")
    out = torch.matmul(dropped(used, keep, a.p), repeated(a.q, _wide(a, "v")))
    return Attended(out, exact, exact.to(_plain(a.q)) if held is None else held, keep, maximum, reciprocal)


def gradients(a: Arguments, probabilities: Tensor, keep: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of q, k and v, in their dtypes, bfloat16 for fp8; of the scores. From the probabilities before dropout."""
    wide = _wide(a, "grad", "do")
    weights = dropped(probabilities, keep, a.p)
    grad_v = torch.matmul(weights.transpose(-1, -2), wide)
    many_v = repeated(a.q, _wide(a, "v"))
    product = weights * torch.matmul(wide, many_v.transpose(-1, -2))
    grad_s = (product - probabilities * product.sum(-1, keepdim=True)) * a.scale
    held, _ = _rounded(a, grad_s, "ds")
    grad_q = torch.matmul(held, repeated(a.q, _wide(a, "k")))
    grad_k = torch.matmul(held.transpose(-1, -2), _wide(a, "q"))
    pairs = (grad_q, a.q), (summed(grad_k, a.k), a.k), (summed(grad_v, a.v), a.v)
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


def seed_of(a: Arguments) -> Tensor:
    """The seed of dropout: the one that is given, or a new one; empty without dropout."""
    if a.p == 0.0:
        return torch.empty(0, dtype=torch.int32, device=a.q.device)
    if hasattr(a, "seed"):
        return a.seed  # type: ignore[no-any-return]
    return torch.randint(0, 2**31 - 1, (1,), dtype=torch.int32, device=a.q.device)


def result_of(a: Arguments, found: Attended) -> Tensor:
    """The result with its own scale, in fp8 if it has one."""
    scale = getattr(a, "q_scale_o", None)
    return found.out.to(_plain(a.q)) if scale is None else quantize(scaled(found.out, scale, None, a.operator), E4M3)


def _drop_nothing(a: Arguments) -> None:
    """Operators of this name drop nothing, whatever p is."""
    if a.operator.endswith("_non_dropout"):
        a.p = 0.0


def forward(a: Arguments) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """softmax(q @ k^T * scale + mask) @ v; the probabilities before dropout, as they are held; True where dropout keeps
    one; the maximum of the probabilities if wanted.

    q: [..., heads, Sq, D]; k: [..., heads or a divisor, Sk, D]; v: [..., Sk, E]; mask: bool (True: seen) or added;
    valid_seq_len: [batch]. The third result is empty if p is 0. Dropout is a function of `seed`, an integer tensor of
    one element, if that is given. `non_dropout` drops nothing, whatever p is. Raises RuntimeError for arguments that do
    not fit.
    Source: the operator's schema; the formula is that of torch.nn.functional.scaled_dot_product_attention.
    """
    _drop_nothing(a)
    found = attend(a)
    keep = torch.empty(0, dtype=torch.bool, device=a.q.device) if found.keep is None else found.keep
    return result_of(a, found), found.held, keep, maximum_of(found.exact, getattr(a, "is_amax_s", False))


def recomputable(a: Arguments) -> tuple[Tensor, ...]:
    """`forward`'s first result; of each row of scores its maximum and 1 / the sum of exponentials; the dropout's seed;
    the maxima of probabilities and result if wanted."""
    _drop_nothing(a)
    name, sinks, heads = a.operator, getattr(a, "sinks", None), a.q.shape[-3]
    size = list(getattr(a, "window_size", (-1, -1)))
    check(len(size) == 2, name, "window_size", size, "two numbers, of keys to the left and right")
    fits = sinks is None or sinks.numel() == heads
    check(fits, name, "sinks", sinks, f"one score for each of the {heads} heads")
    a.window, a.seed = None if max(size) < 0 else size, seed_of(a)
    found = attend(a)
    measured = getattr(a, "is_amax_0", False) or getattr(a, "is_amax_o", False)
    maxima = maximum_of(found.exact, getattr(a, "is_amax_s", False)), maximum_of(found.out, measured)
    return result_of(a, found), found.maximum, found.reciprocal, a.seed, *maxima


def backward(a: Arguments) -> tuple[Tensor, ...]:
    """Gradients of q, k and v, from the probabilities and the mask of dropout that `forward` has returned; the maximum
    of the scores' gradient if wanted."""
    expect(a, "grad", a.grad.shape == a.fwd_out.shape, f"a tensor of shape {list(a.fwd_out.shape)}")
    keep = a.dm if a.dm is not None and a.dm.numel() > 0 and a.p > 0.0 else None
    *found, grad_s = gradients(a, _wide(a, "P", "s") if is_fp8(a.P.dtype) else a.P.float(), keep)
    return *found, maximum_of(grad_s, getattr(a, "is_amax_ds", False))


def sdpa_recomp_bwd(a: Arguments) -> tuple[Tensor, ...]:
    """Gradients of q, k and v; the probabilities are computed again, from the results of `recomputable`."""
    expect(a, "grad", a.grad.shape == a.fwd_out.shape, f"a tensor of shape {list(a.fwd_out.shape)}")
    s = scores(a)
    keep = None
    if a.p > 0.0:
        expect(a, "seed", a.seed is not None and a.seed.numel() > 0, "the seed of the forward's dropout")
        keep = keep_mask(s, a.p, a.seed)
    return gradients(a, torch.exp(s - a.m) * a.linv, keep)
