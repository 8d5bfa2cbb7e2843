"""Random operators that take their seed as a tensor, as Gaudi's compiled graphs do.

Element i is a function of seed and i: the same seed gives the same numbers, in every mode.
"""

import math

import torch
from torch import Tensor

from openhpu.interface.gaudi_ops import operators
from openhpu.interface.gaudi_ops.errors import check, expect
from openhpu.interface.gaudi_ops.seeded import uniform, words


def habana_random_seed(input: Tensor) -> Tensor:
    """A seed, int32 [1], of the device's generator; the input says where."""
    return torch.randint(0, 2**31 - 1, (1,), dtype=torch.int32, device=input.device)


def habana_seed_generator(seed: Tensor, counter: Tensor, size: int) -> Tensor:
    """`size` seeds, int32, that are functions of seed and counter (one integer each)."""
    both = torch.stack((seed.reshape(()).long(), counter.reshape(()).long()))
    return (words(both, [size], seed.device) >> 1).to(torch.int32)


def _check_shape(a: operators.HabanaRand | operators.HabanaRandn) -> torch.dtype:
    """Returns the dtype."""
    expect(a, "size", all(length >= 0 for length in a.size), "lengths of at least 0")
    expect(a, "layout", a.layout in (None, torch.strided), "torch.strided or None")
    return a.dtype or torch.get_default_dtype()


def habana_rand(a: operators.HabanaRand) -> Tensor:
    """Numbers in [0, 1), on the seed's device."""
    return uniform(a.seed, a.size, a.seed.device).to(_check_shape(a))


def habana_randn(a: operators.HabanaRandn) -> Tensor:
    """Normally distributed numbers, mean 0 and deviation 1, by the transformation of Box and Muller."""
    kind = _check_shape(a)
    first, second = uniform(a.seed, [2, *a.size], a.seed.device).unbind()
    return (torch.sqrt(-2.0 * torch.log1p(-first)) * torch.cos(2 * math.pi * second)).to(kind)


def habana_randint(a: operators.HabanaRandint) -> Tensor:
    """Integers in [low, high)."""
    expect(a, "high", a.low < a.high, f"more than low, {a.low}")
    expect(a, "high", a.high - a.low < 2**31, "a range below 2**31")
    return (a.low + words(a.seed, a.size, a.seed.device) * (a.high - a.low) // 2**32).to(a.dtype or torch.int64)


def habana_randperm(a: operators.HabanaRandperm) -> Tensor:
    """The integers below n, in some order."""
    return torch.argsort(words(a.seed, [a.n], a.seed.device), stable=True).to(a.dtype or torch.int64)


def habana_bernoulli(seed: Tensor, self: Tensor, p: Tensor | float | None = None) -> Tensor:
    """1 with probability p (default: self's own numbers), else 0; in self's shape and dtype."""
    return (uniform(seed, self.shape, seed.device) < (self if p is None else p)).to(self.dtype)


def habana_uniform(seed: Tensor, self: Tensor, from_: float, to: float) -> Tensor:
    """Numbers in [from_, to), in self's shape and dtype."""
    return (from_ + uniform(seed, self.shape, seed.device) * (to - from_)).to(self.dtype)


def habana_native_dropout(seed: Tensor, input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """The input with each number dropped with probability p, others divided by 1 - p; True where one is kept."""
    check(0.0 <= p <= 1.0, "habana_native_dropout", "p", p, "a probability")
    if train is False or p == 0.0:
        return input.clone(), torch.ones_like(input, dtype=torch.bool)
    keep = uniform(seed, input.shape, seed.device) >= p
    return (input * keep * (0.0 if p == 1.0 else 1.0 / (1.0 - p))).to(input.dtype), keep


def habana_multinomial(seed: Tensor, self: Tensor, num_samples: int, replacement: bool = False) -> Tensor:
    """Indices drawn by the weights in self, [n] or [rows, n], as torch.multinomial draws them."""
    name = "habana_multinomial"
    check(self.dim() in (1, 2) and self.is_floating_point(), name, "self", self, "floating point, 1 or 2 dimensions")
    count = self.shape[-1]
    check(num_samples > 0, name, "num_samples", num_samples, "at least 1")
    check(replacement or num_samples <= count, name, "num_samples", num_samples, f"at most {count}, one of each")
    weights = self.float()
    if replacement:
        total = weights.cumsum(-1)
        draws = uniform(seed, [*self.shape[:-1], num_samples], seed.device) * total[..., -1:]
        return torch.searchsorted(total, draws, right=True).clamp_max(count - 1)
    # The k largest of u ** (1 / w) are a sample without replacement (P. Efraimidis and P. Spirakis, 2006).
    keys = torch.log(uniform(seed, self.shape, seed.device) + 2.0**-25) / weights
    return torch.where(weights > 0, keys, -math.inf).topk(num_samples, -1).indices
