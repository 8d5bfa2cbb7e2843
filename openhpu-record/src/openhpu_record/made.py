"""Inputs from integer arithmetic: the same numbers on any machine and with any PyTorch, whatever its generators do.

A rule gives one number for each index below PERIOD, and repeats them. Rules are a part of the format: a recording names
them, and whoever replays it makes the same inputs.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

PERIOD = 65_521  # a prime, so that no row of a tensor repeats another
_MASK = (1 << 31) - 1

# Values where number formats have their borders: the limits of fp8 (240 and 448, 57344), float16 and bfloat16, halves,
# what is subnormal in each, and what only some of them hold.
_EDGES = [
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, math.inf, -math.inf, math.nan),
    *(2.0**-6, 2.0**-7, 2.0**-9, 2.0**-10, 2.0**-14, 2.0**-16, 2.0**-17, 2.0**-24, 2.0**-25, 2.0**-126, 2.0**-133),
    *(1e-45, -1e-45, 2.0**-149, 240.0, 247.9, 248.0, 256.0, 448.0, 464.0, 465.0, -448.0, 57344.0, 61440.0, 61441.0),
    *(65504.0, 65519.0, 65520.0, -65520.0, 2.0**31, -(2.0**31), 2.0**31 - 128, 2.0**63, 1e30, -1e30, 3.0e38, 3.38e38),
    *(3.3895313892515355e38, 3.4028234663852886e38, 1e39, 1e300, 16777216.0, 16777217.0, 1 / 3, 2 / 3, math.pi, 88.7),
    *(88.8, -87.4, -103.9, 709.7, 709.8, 11.1, -17.4, 1e-5, 1e-8, 127.0, 128.0, 255.0, 256.5, -129.0, 32767.5),
]
_WHOLE_EDGES = [
    *(0, 1, -1, 2, 3, 7, -8, 127, 128, -128, -129, 255, 256, 32767, 32768, -32768, -32769, 65535, 65536),
    *(16777216, 16777217, 2**31 - 1, -(2**31), 46341, 1 << 30),
]
# What 32 bits cannot hold, or what leaves them in a sum or product.
_WIDE = [2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32, 2**32 + 5, 2**40 + 3, -(2**40), 46341, 1 << 16, 3, -7, 0]


def _mixed(seed: int, number: int) -> torch.Tensor:
    """Whole numbers of 31 bits for the first indices. No product is larger than 62 bits."""
    mixed = (torch.arange(number, dtype=torch.int64) + 1 + (seed * 7919 & 0xFFFF)) * 0x3C6EF35F & _MASK
    for shift, factor in ((15, 0x2C1B3C6D), (12, 0x297A2D39), (15, 1)):
        mixed = ((mixed ^ (mixed >> shift)) * factor) & _MASK
    return mixed


def _of(values: list[Any], dtype: torch.dtype) -> Callable[[torch.Tensor, int], torch.Tensor]:
    """Walks through the values; every seed begins at another one, so that operands meet in many pairs."""

    def take(mixed: torch.Tensor, _bound: int) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype)[(torch.arange(len(mixed)) + mixed[0]) % len(values)]

    return take


def _thousandths(mixed: torch.Tensor) -> torch.Tensor:
    """From -2 to 2."""
    return ((mixed % 4001) - 2000).double() / 1000


def _scaled(numbers: torch.Tensor, exponents: torch.Tensor) -> torch.Tensor:
    """Times powers of two, from a table: `pow` need not give the same bits everywhere."""
    return numbers * torch.tensor([2.0**k for k in range(-160, 161)], dtype=torch.float64)[exponents + 160]


def _halfway(mixed: torch.Tensor, _bound: int) -> torch.Tensor:
    """Numbers of which many lie halfway between two of bfloat16, float16 or fp8."""
    step = torch.tensor([2.0**-4, 2.0**-3, 2.0**-8, 2.0**-11, 2.0**-12], dtype=torch.float64)[mixed % 5]
    sign = 1 - 2 * ((mixed >> 20) % 2).double()
    return _scaled(sign * (1 + ((mixed >> 4) % 8).double() * step), (mixed >> 8) % 7 - 3)


# By name: numbers as float64 or int64 from mixed integers and a bound.
RULES: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "plain": lambda mixed, bound: _thousandths(mixed),
    "positive": lambda mixed, bound: (mixed % 4000 + 1).double() / 1000,
    "unit": lambda mixed, bound: ((mixed % 1999) - 999).double() / 1000,
    "share": lambda mixed, bound: (mixed % 1000).double() / 1000,
    "large": lambda mixed, bound: _scaled(_thousandths(mixed), mixed % 128),
    "small": lambda mixed, bound: _scaled(_thousandths(mixed), -(mixed % 150)),
    "rounding": _halfway,
    "edge": _of(_EDGES, torch.float64),
    "same": lambda mixed, bound: (mixed % 5).double(),
    "whole": lambda mixed, bound: mixed % 41 - 20,
    "count": lambda mixed, bound: mixed % 7 + 1,
    "whole_edge": _of(_WHOLE_EDGES, torch.int64),
    "wide": _of(_WIDE, torch.int64),
    "index": lambda mixed, bound: mixed % bound,
    "distinct": lambda mixed, bound: torch.arange(len(mixed)) * 7 % bound,
    "outside": lambda mixed, bound: mixed % (2 * bound + 3) - bound - 1,
    "past": lambda mixed, bound: mixed % (bound + 3),
    "truth": lambda mixed, bound: (mixed % 4 != 0).long(),
}


@functools.lru_cache(maxsize=64)
def _block(rule: str, seed: int, bound: int, dtype: torch.dtype, number: int) -> torch.Tensor:
    values = RULES[rule](_mixed(seed, number), bound)
    if dtype is torch.bool:
        return values != 0
    if not (dtype.is_floating_point or dtype.is_complex) and values.is_floating_point():
        values = values.nan_to_num(0.0, 0.0, 0.0).clamp(-100, 100).trunc().long()
    if dtype.itemsize == 1 and dtype.is_floating_point:
        values = values.clamp(-240, 240).nan_to_num(0.0).float()  # numbers of all generations
    if dtype.is_complex:
        return torch.complex(values.double(), values.double().roll(1)).to(dtype)
    return values.to(dtype)


def made(rule: str, seed: int, dtype: torch.dtype, shape: list[int], bound: int = 1) -> torch.Tensor:
    """A contiguous tensor on the host. `bound`: the number of indices, of the rules that make some."""
    number = math.prod(shape)
    if not number:
        return torch.empty(shape, dtype=dtype)
    block = _block(rule, seed, max(bound, 1), dtype, min(number, PERIOD))
    bits = block.view(torch.uint8) if dtype.itemsize == 1 else block  # what every PyTorch can repeat
    whole = bits.repeat(-(-number // PERIOD))[:number].clone() if number > PERIOD else bits[:number].clone()
    return whole.view(dtype).reshape(shape)


def rule_for(dtype: torch.dtype) -> str:
    """The rule for an input of a script whose values are not kept."""
    if dtype is torch.bool:
        return "truth"
    return "plain" if dtype.is_floating_point or dtype.is_complex else "index"
