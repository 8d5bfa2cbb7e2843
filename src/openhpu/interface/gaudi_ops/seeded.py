"""Random numbers as functions of a seed tensor: element i is a hash of the seed and i.

They are ordinary integer operators. So each run of a graph draws the numbers of the current seed tensor.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

_WORD = 0xFFFFFFFF


def _mixed(x: Tensor) -> Tensor:
    """A hash of 32 bits, held in int64, where a product of 32 by 31 bits does not overflow."""
    for factor in (0x7FEB352D, 0x45D9F3B):
        x = ((x ^ (x >> 16)) * factor) & _WORD
    return x ^ (x >> 16)


def words(seed: Tensor, shape: Sequence[int], device: torch.device) -> Tensor:
    """Integers below 2**32 of the given shape, in int64. `seed`: integers, of which all elements count."""
    key = torch.zeros((), dtype=torch.int64, device=device)
    for part in seed.reshape(-1).to(device=device, dtype=torch.int64).unbind():
        key = _mixed((key + part) & _WORD)
    count = torch.arange(math.prod(shape), dtype=torch.int64, device=device)
    return _mixed((_mixed(count & _WORD) + key) & _WORD).reshape(list(shape))


def uniform(seed: Tensor, shape: Sequence[int], device: torch.device) -> Tensor:
    """Float32 numbers in [0, 1), with 24 bits each."""
    return (words(seed, shape, device) >> 8).float() * 2.0**-24
