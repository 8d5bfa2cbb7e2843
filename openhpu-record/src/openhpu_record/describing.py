"""What a recording says of a tensor: its type, statistics and a hash, and where its numbers are kept."""

import hashlib
import math
from typing import Any

import torch

from openhpu_record.tensors import dtype_name, raw

MOST_ELEMENTS = 1 << 16  # of a tensor, evenly spaced, for statistics and the hash


def form(tensor: torch.Tensor) -> dict[str, Any]:
    """dtype, shape, stride and layout; no value is read."""
    about: dict[str, Any] = {
        "dtype": dtype_name(tensor.dtype),
        "shape": list(tensor.shape),
        "layout": dtype_name(tensor.layout),  # type: ignore[arg-type]
        "device": tensor.device.type,
    }
    if tensor.layout is torch.strided:
        about["stride"] = list(tensor.stride())
    return about


def spaced(tensor: torch.Tensor, most: int = MOST_ELEMENTS) -> tuple[torch.Tensor, int]:
    """At most `most` elements of a tensor in one dimension, evenly spaced, on its device; and the distance."""
    step = max(1, -(-tensor.numel() // most))
    flat = tensor.detach()
    if step == 1:
        return flat.reshape(-1), 1
    if flat.is_contiguous():
        return flat.view(-1)[::step].clone(), step
    # The outermost dimension first, so that no copy of the whole is made.
    outer = max(1, min(step, flat.shape[0]))
    part = flat[::outer].reshape(-1)
    inner = max(1, -(-part.numel() // most))
    return part[::inner].clone(), 0


def numbers(host: torch.Tensor) -> dict[str, Any]:
    """Statistics of a tensor on the host: float64 sums. Those of finite elements; `nan` and `inf` count the others."""
    if not host.numel():
        return {"of": 0}
    if host.is_complex():
        host = torch.view_as_real(host.resolve_conj())
    if not (host.is_floating_point() or host.dtype is torch.bool):
        low, high = int(host.min()), int(host.max())
        wide = host.double()
        return {"of": host.numel(), "min": low, "max": high, "mean": float(wide.mean()), "rms": _rms(wide)}
    wide = host.double()
    if math.isfinite(float(wide.sum())):  # every number is finite
        nan = infinite = 0
    else:
        nan, infinite = int(wide.isnan().sum()), int(wide.isinf().sum())
        wide = wide[wide.isfinite()]
    found: dict[str, Any] = {"of": host.numel(), "nan": nan, "inf": infinite}
    if wide.numel():
        smallest, largest = torch.aminmax(wide)
        found.update(min=float(smallest), max=float(largest), mean=float(wide.mean()), rms=_rms(wide))
    return found


def _rms(wide: torch.Tensor) -> float:
    """The root of the mean square. Numbers near float64's limit are scaled first."""
    largest = float(wide.abs().max())
    return largest * math.sqrt(float((wide / largest).square().mean())) if largest else 0.0


def digest(host: torch.Tensor) -> str:
    """A hash of the bits, of 16 hexadecimal digits."""
    return hashlib.blake2b(raw(host), digest_size=8).hexdigest()


def described(tensor: torch.Tensor) -> dict[str, Any]:
    """The form of a tensor and what its numbers are. Reads them: waits for the device."""
    about = form(tensor)
    if tensor.layout is torch.strided and tensor.device.type != "meta" and not tensor.is_quantized:
        part, step = spaced(tensor)
        host = part.cpu()
        about["numbers"] = numbers(host)
        about["hash"] = digest(host)
        if step != 1:
            about["step"] = step
    return about
