"""What "the same result" means: structure, metadata, aliasing and values at PyTorch's tolerances."""

from dataclasses import dataclass
from typing import Any

import torch
from torch.testing._comparison import default_tolerances
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_leaves, tree_structure

from tests.conformance.transfer import OnHost, tensors_of


class Mismatch(AssertionError):
    """The device's result is not the CPU's."""


@dataclass(frozen=True)
class Tolerance:
    """Replaces torch.testing's defaults where the database asks for more room."""

    atol: float | None = None
    rtol: float | None = None
    # A share of the tensor's largest magnitude, added to atol: for sums of rounded terms, whose small elements are
    # differences of large ones and have no relative accuracy of their own.
    of_largest: float = 0.0

    def pair(self, dtype: torch.dtype, expected: torch.Tensor | None = None) -> dict[str, Any]:
        rtol, atol = default_tolerances(dtype)
        rtol, atol = max(rtol, self.rtol or 0.0), max(atol, self.atol or 0.0)
        if self.of_largest and expected is not None and expected.isfinite().any():
            atol += self.of_largest * expected[expected.isfinite()].abs().max().item()
        return {"rtol": rtol, "atol": atol}


@dataclass(frozen=True)
class Demand:
    """How much of a result is compared."""

    tolerance: Tolerance
    content: bool = True
    strides: bool = True
    # Every tensor whose twin is on the CPU must be on the device.
    placed: bool = True
    device: str = "hpu"


def compare(expected: Any, actual: Any, demand: Demand, where: str = "result") -> None:
    """Raises `Mismatch` unless `actual`, computed on the device, equals the CPU's `expected`."""
    leaves, structure = tree_flatten_with_path(expected)
    if structure != (other := tree_structure(actual)):
        raise Mismatch(f"{where}: expected {structure}, got {other}")
    for (path, e), a in zip(leaves, tree_leaves(actual), strict=True):
        _compare_leaf(e, a, demand, where + keystr(path))


def _compare_leaf(expected: Any, actual: Any, demand: Demand, where: str) -> None:
    if isinstance(expected, torch.Tensor):
        if not isinstance(actual, torch.Tensor):
            raise Mismatch(f"{where}: expected a tensor, got {type(actual).__name__}")
        _compare_tensor(expected, actual, demand, where)
    elif isinstance(expected, (float, complex)) and isinstance(actual, (float, complex)):
        if demand.content:
            pair = demand.tolerance.pair(torch.complex128 if isinstance(expected, complex) else torch.float64)
            torch.testing.assert_close(actual, expected, equal_nan=True, **pair)
    elif isinstance(expected, torch.device) and isinstance(actual, torch.device):
        if actual.type != demand.device:
            raise Mismatch(f"{where}: expected a device of {demand.device}, got {actual}")
    elif isinstance(expected, str) and expected == "cpu":
        if actual not in ("cpu", demand.device):
            raise Mismatch(f"{where}: expected a device's name, got {actual}")
    elif not isinstance(expected, (torch.Generator, OnHost)):  # which a copy makes anew
        _compare_plain(expected, actual, demand, where)


def _compare_plain(expected: Any, actual: Any, demand: Demand, where: str) -> None:
    """Integers, booleans, strings, dtypes, functions: numbers that random operators give are results too."""
    if type(expected) is not type(actual):
        raise Mismatch(f"{where}: expected {type(expected).__name__}, got {type(actual).__name__}")
    same = expected == actual
    if isinstance(same, bool) and not same and (demand.content or not isinstance(expected, int)):
        raise Mismatch(f"{where}: expected {str(expected)[:80]}, got {str(actual)[:80]}")


def _metadata(t: torch.Tensor, strides: bool) -> dict[str, Any]:
    facts: dict[str, Any] = {"shape": tuple(t.shape), "dtype": t.dtype, "layout": t.layout}
    if t.layout is torch.strided:
        facts |= {"conjugated": t.is_conj(), "negated": t.is_neg()}
        if strides and t.numel() > 0:
            # The stride of a dimension of size 1 says nothing.
            facts["strides"] = tuple(s for n, s in zip(t.shape, t.stride(), strict=True) if n > 1)
    elif t.is_sparse:
        facts["coalesced"] = t.is_coalesced()
    return facts


def _compare_tensor(expected: torch.Tensor, actual: torch.Tensor, demand: Demand, where: str) -> None:
    if demand.placed and expected.device.type == "cpu" and actual.device.type != demand.device:
        raise Mismatch(f"{where}: device: expected {demand.device}, got {actual.device}")
    wanted, got = _metadata(expected, demand.strides), _metadata(actual, demand.strides)
    if wanted != got:
        text = ", ".join(f"{k}: expected {wanted[k]}, got {got.get(k)}" for k in wanted if wanted[k] != got.get(k))
        raise Mismatch(f"{where}: {text}")
    if not demand.content or expected.device.type == "meta":
        return
    expected = expected.detach()
    host = actual.detach().cpu()
    comparable = expected.layout is torch.strided and expected.dtype is not torch.complex32
    if comparable and torch.equal(expected, host):
        return
    pair = demand.tolerance.pair(expected.dtype, expected)
    try:
        torch.testing.assert_close(host, expected, equal_nan=True, check_device=False, check_stride=False, **pair)
    except AssertionError as e:
        raise Mismatch(f"{where}: values: {' '.join(str(e).split())[:300]}") from None


def _storage(t: torch.Tensor) -> int | None:
    return t.untyped_storage()._cdata if t.layout is torch.strided and not t.is_nested else None


def aliasing(inputs: Any, outputs: Any) -> list[int]:
    """For each output tensor the first input or earlier output that shares its storage, -1 for none."""
    seen = [_storage(t) for t in tensors_of(inputs)]
    found = []
    for t in tensors_of(outputs):
        own = _storage(t)
        found.append(seen.index(own) if own is not None and own in seen else -1)
        seen.append(own)
    return found
