"""The ranges of optimizers' numbers."""

from __future__ import annotations

from torch import Tensor


def check_range(name: str, **numbers: float | Tensor) -> None:
    """Raise ValueError for a number below 0; a tensor's is not looked at, as that would wait for the device."""
    for argument, value in numbers.items():
        if not isinstance(value, Tensor) and value < 0.0:
            raise ValueError(f"{name}: {argument} is {value}; expected a number of at least 0")
