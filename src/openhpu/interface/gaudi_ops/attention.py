"""Scaled dot-product attention in Gaudi's forms: it saves its probabilities for backward, or computes them again.

`hpex.kernels.FusedSDPA` calls PyTorch's operator where it can. These operators are for scripts that call them by name,
and for arguments that PyTorch's operator does not have: padded lengths, windows, sinks, probabilities, and scales of
fp8 operands (`fp8_attention`). They compute in float32.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from openhpu.interface.gaudi_ops.errors import check
from openhpu.interface.gaudi_ops.fp8 import E4M3, absolute_maximum, is_fp8, no_amax, quantize, scaled
from openhpu.interface.gaudi_ops.registry import Arguments

SOFTMAX_MODES = ("None", "fast", "fp32")
Window = tuple[int, int]


@dataclass(frozen=True)
class Masking:
    """Excluded keys of a query: a mask (bool: True is allowed; else added), later keys, padding, distance."""

    mask: Tensor | None = None
    is_causal: bool = False
    lengths: Tensor | None = None  # [batch] valid keys
    padding: str = "left"
    window: Window | None = None  # keys to the left and to the right of a query's own; -1: all


def check_arguments(a: Arguments, masking: Masking) -> None:
    """Raise RuntimeError for arguments that no form of attention takes."""
    name, q, k, v = a.operator, a.q, a.k, a.v
    for argument, tensor in (("q", q), ("k", k), ("v", v)):
        check(tensor.is_floating_point(), name, argument, tensor, "a floating-point tensor")
        check(tensor.dim() >= 3, name, argument, tensor, "[..., heads, length, dimension]")
    check(q.shape[-1] == k.shape[-1], name, "k", k, f"a last dimension of {q.shape[-1]}, as q's")
    check(k.shape[-2] == v.shape[-2], name, "v", v, f"{k.shape[-2]} positions, as k's")
    check(k.shape[-3] == v.shape[-3], name, "v", v, f"{k.shape[-3]} heads, as k's")
    check(q.shape[-3] % k.shape[-3] == 0, name, "k", k, f"a number of heads that divides q's {q.shape[-3]}")
    check(0.0 <= a.p < 1.0, name, "p", a.p, "a probability of dropout, at least 0 and less than 1")
    modes = f"one of {', '.join(SOFTMAX_MODES)}"
    check(a.softmax_mode in SOFTMAX_MODES, name, "softmax_mode", a.softmax_mode, modes)
    if masking.lengths is not None:
        check(
            masking.lengths.dim() == 1 and masking.lengths.shape[0] == q.shape[0], name, "valid_seq_len",
            masking.lengths, f"one length for each of the {q.shape[0]} sequences",
        )  # fmt: skip
        check(masking.padding in ("left", "right"), name, "seq_padding_type", masking.padding, "left or right")


def default_scale(q: Tensor, scale: float | None) -> float:
    """`scale`, or PyTorch's default."""
    return 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale


def visible(q: Tensor, k: Tensor, masking: Masking) -> Tensor | None:
    """Which keys a query may see, apart from the mask: a bool tensor that broadcasts to the scores, or None for all."""
    rows = torch.arange(q.shape[-2], device=q.device).unsqueeze(-1)
    columns = torch.arange(k.shape[-2], device=q.device)
    seen: Tensor | None = None
    if masking.is_causal:
        seen = columns <= rows
    if masking.window is not None:
        left, right = masking.window
        if left >= 0:
            seen = _both(seen, columns >= rows - left)
        if right >= 0:
            seen = _both(seen, columns <= rows + right)
    if masking.lengths is not None:
        lengths = masking.lengths.reshape(-1, *[1] * (q.dim() - 1))
        valid = columns < lengths if masking.padding == "right" else columns >= k.shape[-2] - lengths
        seen = _both(seen, valid)
    return seen


def _both(a: Tensor | None, b: Tensor) -> Tensor:
    return b if a is None else a & b


def scores(a: Arguments, k: Tensor, masking: Masking) -> Tensor:
    """q @ k^T * scale in float32, -inf where a query may not see a key."""
    scale = default_scale(a.q, a.scale)
    out = torch.matmul(_wide(a, "q"), k.transpose(-1, -2)) * scale
    seen = visible(a.q, a.k, masking)
    if masking.mask is not None:
        if masking.mask.dtype is torch.bool:
            seen = _both(seen, masking.mask)
        else:
            out = out + masking.mask
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


def maximum_of(x: Tensor, wanted: bool) -> Tensor:
    """max |x|, empty unless it is wanted."""
    return absolute_maximum(x) if wanted else no_amax(x)


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


def attend(a: Arguments, masking: Masking, seed: Tensor | None = None, sinks: Tensor | None = None) -> Attended:
    """Attention of `a.q`, `a.k` and `a.v`, with `a.scale`, dropout `a.p` and the scales of fp8 that `a` has."""
    check_arguments(a, masking)
    s = scores(a, repeated(a.q, _wide(a, "k")), masking)
    maximum, reciprocal = softmax_parts(s, sinks)
    exact = torch.exp(s - maximum) * reciprocal
    keep = keep_mask(s, a.p, seed) if a.p > 0.0 else None
    used, held = _rounded(a, exact, "s")
    out = torch.matmul(dropped(used, keep, a.p), repeated(a.q, _wide(a, "v")))
    return Attended(out, exact, exact.to(_plain(a.q)) if held is None else held, keep, maximum, reciprocal)


def gradients(a: Arguments, probabilities: Tensor, keep: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of q, k and v, in their dtypes, bfloat16 for fp8; of the scores. From the probabilities before dropout."""
    wide = _wide(a, "grad", "do")
    weights = dropped(probabilities, keep, a.p)
    grad_v = torch.matmul(weights.transpose(-1, -2), wide)
    many_v = repeated(a.q, _wide(a, "v"))
    grad_s = scores_gradient(torch.matmul(wide, many_v.transpose(-1, -2)), probabilities, weights) * a.scale
    held, _ = _rounded(a, grad_s, "ds")
    grad_q = torch.matmul(held, repeated(a.q, _wide(a, "k")))
    grad_k = torch.matmul(held.transpose(-1, -2), _wide(a, "q"))
    pairs = (grad_q, a.q), (summed(grad_k, a.k), a.k), (summed(grad_v, a.v), a.v)
    grad_q, grad_k, grad_v = (grad.to(_plain(x)) for grad, x in pairs)
    return grad_q, grad_k, grad_v, grad_s


def dropped(probabilities: Tensor, keep: Tensor | None, p: float) -> Tensor:
    """The probabilities after dropout."""
    return probabilities if keep is None else probabilities * keep * (1.0 / (1.0 - p))


def scores_gradient(grad_weights: Tensor, probabilities: Tensor, weights: Tensor) -> Tensor:
    """The gradient of the scores, from that of the `weights`, the probabilities after dropout."""
    product = weights * grad_weights
    return product - probabilities * product.sum(-1, keepdim=True)


def summed(grad: Tensor, like: Tensor) -> Tensor:
    """The sum over the dimensions that `repeated` or a product's broadcasting multiplied."""
    if grad.shape == like.shape:
        return grad
    if grad.dim() == like.dim() and grad.dim() > 4:
        return grad.sum_to_size(*like.shape)
    heads = like.shape[-3]
    grouped = grad.reshape(*grad.shape[:-3], heads, grad.shape[-3] // heads, *grad.shape[-2:])
    return grouped.sum(-3)


def masking_of(a: Arguments, window: Window | None = None) -> Masking:
    """What the arguments of a forward exclude."""
    return Masking(a.attention_mask, a.is_causal, a.valid_seq_len, a.seq_padding_type, window)


def no_mask(q: Tensor) -> Tensor:
    """The result in the place of a mask of dropout, where nothing is dropped."""
    return torch.empty(0, dtype=torch.bool, device=q.device)


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
    """The result, the probabilities as they are held, dropout's mask, and the probabilities' maximum if wanted."""
    _drop_nothing(a)
    found = attend(a, masking_of(a), getattr(a, "seed", None))
    keep = no_mask(a.q) if found.keep is None else found.keep
    return result_of(a, found), found.held, keep, maximum_of(found.exact, getattr(a, "is_amax_s", False))


def recomputable(a: Arguments) -> tuple[Tensor, ...]:
    """The result; of each row of scores its maximum and 1 / the sum of exponentials; the dropout's seed; the maxima of
    probabilities and result if wanted."""
    _drop_nothing(a)
    name, sinks, heads = a.operator, getattr(a, "sinks", None), a.q.shape[-3]
    size = list(getattr(a, "window_size", (-1, -1)))
    check(len(size) == 2, name, "window_size", size, "two numbers, of keys to the left and right")
    fits = sinks is None or sinks.numel() == heads
    check(fits, name, "sinks", sinks, f"one score for each of the {heads} heads")
    seed = seed_of(a)
    found = attend(a, masking_of(a, None if max(size) < 0 else (size[0], size[1])), seed, sinks)
    measured = getattr(a, "is_amax_0", False) or getattr(a, "is_amax_o", False)
    maxima = maximum_of(found.exact, getattr(a, "is_amax_s", False)), maximum_of(found.out, measured)
    return result_of(a, found), found.maximum, found.reciprocal, seed, *maxima


def backward(a: Arguments) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`gradients` from the probabilities and the mask of dropout that `forward` has returned."""
    check(a.grad.shape == a.fwd_out.shape, a.operator, "grad", a.grad, f"a tensor of shape {list(a.fwd_out.shape)}")
    keep = a.dm if a.dm is not None and a.dm.numel() > 0 and a.p > 0.0 else None
    return gradients(a, _wide(a, "P", "s") if is_fp8(a.P.dtype) else a.P.float(), keep)


def sdpa_fwd(a: Arguments) -> tuple[Tensor, ...]:
    """softmax(q @ k^T * scale + mask) @ v; the probabilities before dropout; True where dropout keeps one.

    q: [..., heads, Sq, D]; k: [..., heads or a divisor, Sk, D]; v: [..., Sk, E]; mask: bool (True: seen) or added;
    valid_seq_len: [batch]. The last result is empty if p is 0. Dropout is a function of `seed`, an integer tensor of
    one element, if that is given. `non_dropout` drops nothing, whatever p is. Raises RuntimeError for arguments that do
    not fit.
    Source: the operator's schema; the formula is that of torch.nn.functional.scaled_dot_product_attention.
    """
    return forward(a)[:3]


def sdpa_bwd(a: Arguments) -> tuple[Tensor, ...]:
    """Gradients of q, k and v, from `sdpa_fwd`'s probabilities and mask of dropout."""
    return backward(a)[:3]


def sdpa_recomp_fwd(a: Arguments) -> tuple[Tensor, ...]:
    """`sdpa_fwd`'s first result; of each row of scores its maximum, 1 / the sum of exponentials; the dropout's seed."""
    return recomputable(a)[:4]


def sdpa_recomp_bwd(a: Arguments) -> tuple[Tensor, ...]:
    """Gradients of q, k and v; the probabilities are computed again, from the results of `sdpa_recomp_fwd`."""
    name, seed = a.operator, a.seed
    check(a.grad.shape == a.fwd_out.shape, name, "grad", a.grad, f"a tensor of shape {list(a.fwd_out.shape)}")
    s = scores(a, repeated(a.q, _wide(a, "k")), Masking(a.attention_mask, a.is_causal))
    keep = None
    if a.p > 0.0:
        check(seed is not None and seed.numel() > 0, name, "seed", seed, "the seed of the forward's dropout")
        keep = keep_mask(s, a.p, seed)
    return gradients(a, torch.exp(s - a.m) * a.linv, keep)[:3]
