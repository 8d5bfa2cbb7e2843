"""How tensors get their scales."""

import enum
from dataclasses import dataclass

import torch


class Format(enum.Enum):
    """The fp8 formats of forward and backward: HYBRID is float8_e4m3fn forwards, float8_e5m2 backwards."""

    E4M3 = (torch.float8_e4m3fn, torch.float8_e4m3fn)
    E5M2 = (torch.float8_e5m2, torch.float8_e5m2)
    HYBRID = (torch.float8_e4m3fn, torch.float8_e5m2)


@dataclass
class DelayedScaling:
    """A tensor's scale comes from the largest absolute values that it had in earlier steps.

    scale = largest number of the format / amax / 2**margin; amax is the largest of the last `amax_history_len`
    ("max") or the last one ("most_recent"); computed every `interval` steps. With `reduce_amax` it is the largest of
    the ranks of fp8_autocast's group. Raises ValueError for other values. Source: P. Micikevicius et al., FP8 Formats
    for Deep Learning, 2022.
    """

    margin: int = 0
    interval: int = 1
    fp8_format: Format = Format.HYBRID
    amax_history_len: int = 1
    amax_compute_algo: str = "most_recent"
    reduce_amax: bool = True

    def __post_init__(self) -> None:
        if self.amax_compute_algo not in ("max", "most_recent"):
            raise ValueError(
                f"DelayedScaling: amax_compute_algo is {self.amax_compute_algo!r}; expected max or most_recent"
            )
        if self.amax_history_len < 1 or self.interval < 1:
            raise ValueError("DelayedScaling: amax_history_len and interval are at least 1")
