"""What checks of HPU graphs (OPENHPU_CHECK_GRAPHS) say: the event `graph_check`, and a warning at the first one."""

import itertools
import warnings
from collections.abc import Callable, Iterable

import torch

from openhpu import _C, settings
from openhpu.observe import events

Site = tuple[str, int] | None

COLLECTIVES = "it holds collectives, in which other ranks take part"
NO_MEMORY = "there is no memory for the copies"
# By dtype: how many units in the last place a recipe may differ by. Of a dtype of 8 bits it is one.
_STEPS = {torch.float64: 2**26, torch.float32: 2**11, torch.float16: 2**4, torch.bfloat16: 2**3}
_said: set[str] = set()
_numbers = itertools.count(1)


def new_number() -> int:
    """The number of a graph that is checked, from 1 on."""
    return next(_numbers)


def say(owner: str, outcome: str, text: str = "", op: str = "", site: Site = None, graph: int = 0) -> None:
    """One replay was checked: `outcome` is equal, different or unchecked. Or the script holds an overwritten result.

    `graph`: its number, if it has one.

    Warns of the first difference, and of each reason why there is no check.
    """
    events.publish("graph_check", {"owner": owner, "outcome": outcome, "op": op, "text": text, "graph": graph}, site)
    kind = text if outcome == "unchecked" else "different"
    if outcome != "equal" and kind not in _said:
        _said.add(kind)
        where = f" ({op or 'operator'} at {site[0]}:{site[1]})" if site else ""
        rest = "" if outcome == "unchecked" else "; `openhpu run --check-graphs` lists later ones"
        verb = "is not checked" if outcome == "unchecked" else "differs from the plain call"
        warnings.warn(f"HPU graph {owner or 'by hand'} {verb}{where}: {text}{rest}", RuntimeWarning, stacklevel=2)


def coarsest(dtypes: Iterable[torch.dtype | None]) -> torch.dtype | None:
    """The float dtype with the largest `eps`; None without one."""
    floats = [t for t in dtypes if t is not None and (t.is_floating_point or t.is_complex)]
    return max(floats, key=lambda t: torch.finfo(t).eps, default=None)


def share(dtype: torch.dtype | None) -> float:
    """What rounding to this dtype may make of a row, relative to its largest value that differs; 0 without a dtype."""
    return 0.0 if dtype is None else _STEPS.get(dtype.to_real(), 1) * torch.finfo(dtype).eps


def noise(dtype: torch.dtype | None) -> float:
    """What the inputs' own last digits may make of a result that cancels, relative to its largest value that differs; 0
    without a dtype."""
    return 0.0 if dtype is None else min(_STEPS.get(dtype.to_real(), 1), 16) / 4 * torch.finfo(dtype).eps


def close(
    a: torch.Tensor, b: torch.Tensor, share: float, row: int | None = None, step: int = 1, noise: float = 0.0
) -> bool:
    """Whether two results on the host, of one shape and dtype, agree but for `share`.

    Elements that are equal, or both NaN, set no scale. Each other one may differ by `share` of the largest value in its
    row that differs: a row is what the last dimension spans, or `row` elements, of which `a` and `b` hold every
    `step`-th. Integers, bools and infinities have to be equal. `noise`: an element may also differ by this part of the
    largest value of all rows that differs, for results of inputs that are not equal to the bit.
    """
    if not (a.is_floating_point() or a.is_complex()):
        return torch.equal(a, b)
    row = row or (a.shape[-1] if a.dim() else 1) or 1
    wide = torch.complex128 if a.is_complex() else torch.float64
    a, b = (t.to(wide).flatten() for t in (a, b))
    unequal = ((a != b) & ~(a.isnan() & b.isnan())).nonzero().flatten()
    if not len(unequal):
        return True
    rows = (unequal * step).div(row, rounding_mode="floor").unique(return_inverse=True)[1]
    a, b = a[unequal], b[unequal]
    if not (a.isfinite() & b.isfinite()).all():
        return False
    largest = torch.zeros(int(rows.max()) + 1, dtype=torch.float64)
    largest.scatter_reduce_(0, rows, torch.maximum(a.abs(), b.abs()), "amax")
    allowed = torch.maximum(share * largest[rows], noise * largest.max())
    return bool(((a - b).abs() <= allowed).all())


def allowance(graph: _C.CapturedGraph) -> Callable[[torch.dtype | None], float]:
    """How much of a row a recipe may change in results of the same operators and inputs, by the coarsest dtype.

    Bits are equal where no recipe can be at work. A recipe may add in another order and keep more digits of float16 and
    bfloat16 than single operators do.
    """
    exact = not graph.describe()["recipe"] and settings.get("OPENHPU_COMPILE") == "off"
    return lambda dtype: 0.0 if exact else share(dtype)


def amount(a: torch.Tensor, b: torch.Tensor) -> str:
    """How much two tensors differ, in words."""
    wide = torch.complex128 if a.is_complex() else torch.float64
    differs = bits(a) != bits(b)
    differs = (differs.any(-1) if differs.dim() > a.dim() else differs) & ~(a.to(wide).isnan() & b.to(wide).isnan())
    count = f"{int(differs.sum())} of {a.numel()} elements"
    x, y = a.to(wide)[differs], b.to(wide)[differs]
    if not len(x):
        return f"the bits of NaN, in {int((bits(a) != bits(b)).sum())} of {a.numel()} elements"
    if (x.isnan() | y.isnan()).any():
        return f"{count}, of which {int((x.isnan() | y.isnan()).sum())} are NaN in one of the two"
    if not (x != y).any():
        return f"{count}, in the sign of zero"
    return f"{count}, by up to {float((x - y).abs().max()):.3g}"


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The bits of a tensor as integers; of a complex one, those of its two parts in a last dimension."""
    tensor = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    if not tensor.is_floating_point():
        return tensor
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.contiguous().view(whole[tensor.itemsize])
