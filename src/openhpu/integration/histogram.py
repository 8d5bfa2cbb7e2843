"""`torch.histc` of integers, which CUDA's kernel takes and the CPU's, on which the device's is built, does not.

Libraries give integers to every device that is not "cpu" by name: transformers counts each expert's tokens so.
"""

import functools
import warnings
from typing import Any

import torch


@functools.cache
def install() -> torch.library.Library:
    """Register it over the device's kernel, which still does the other dtypes."""
    library = torch.library.Library("aten", "IMPL")
    plain = torch.library.get_kernel("aten::histc", "HPU")

    def histc(keys: Any, input: torch.Tensor, bins: int = 100, min: float = 0, max: float = 0) -> torch.Tensor:
        if input.dtype.is_floating_point or input.dtype.is_complex or input.dtype == torch.bool:
            return plain.call_boxed(keys, input, bins, min, max)  # type: ignore[no-any-return]
        if bins <= 0 or min >= max:  # a range that depends on values, or an error
            return plain.call_boxed(keys, input.double(), bins, min, max).to(input.dtype)  # type: ignore[no-any-return]
        return _counted(input, bins, min, max)

    with warnings.catch_warnings(action="ignore"):  # that a kernel is replaced is meant
        library.impl("histc", histc, "HPU", with_keyset=True)
    return library


def _counted(input: torch.Tensor, bins: int, low: float, high: float) -> torch.Tensor:
    """Integers between two bounds, counted by operators that are native, so that graphs may hold them. The bin is
    found in integers where the bounds are such, as CUDA does, hence exactly."""
    values = input.flatten().long()
    if low == int(low) and high == int(high):
        place = (values - int(low)).mul(bins).div(int(high) - int(low), rounding_mode="floor")
    else:
        place = ((values - low) * (bins / (high - low))).floor().long()
    within = (values >= low) & (values <= high)
    place = torch.where(within, place.clamp(max=bins - 1), bins)  # the last value is in the last bin, others in none
    ones = torch.ones_like(place, dtype=input.dtype)
    return torch.zeros(bins + 1, dtype=input.dtype, device=input.device).scatter_add(0, place, ones)[:bins]
