"""What checks of HPU graphs (OPENHPU_CHECK_GRAPHS) say: the event `graph_check`, and a warning at the first one."""

import warnings
from collections.abc import Callable, Iterable

import torch

from openhpu import _C, settings
from openhpu.observe import events

Site = tuple[str, int] | None

COLLECTIVES = "it holds collectives, in which other ranks take part"
NO_MEMORY = "there is no memory for the copies"
_said: set[str] = set()


def say(owner: str, outcome: str, text: str = "", op: str = "", site: Site = None) -> None:
    """One replay was checked: `outcome` is equal, different or unchecked. Or the script holds an overwritten result.

    Warns of the first difference, and of each reason why there is no check.
    """
    events.publish("graph_check", {"owner": owner, "outcome": outcome, "op": op, "text": text}, site)
    kind = text if outcome == "unchecked" else "different"
    if outcome != "equal" and kind not in _said:
        _said.add(kind)
        where = f" ({op or 'operator'} at {site[0]}:{site[1]})" if site else ""
        rest = "" if outcome == "unchecked" else "; `openhpu run --check-graphs` lists later ones"
        verb = "is not checked" if outcome == "unchecked" else "differs from the plain call"
        warnings.warn(f"HPU graph {owner or 'by hand'} {verb}{where}: {text}{rest}", RuntimeWarning, stacklevel=2)


def share(dtypes: Iterable[torch.dtype]) -> float:
    """Half of the digits (the square root of `eps`) of the coarsest float dtype; 0 without one."""
    return max((torch.finfo(t).eps ** 0.5 for t in dtypes if t.is_floating_point or t.is_complex), default=0.0)


def close(a: torch.Tensor, b: torch.Tensor, share: float) -> bool:
    """Whether two results on the host differ by at most `share`, relative to the largest value; NaN equals NaN.

    Integers and bools have to be equal.
    """
    if not (a.is_floating_point() or a.is_complex()):
        share = 0.0
    wide = torch.complex128 if a.is_complex() else torch.float64
    a, b = a.to(wide), b.to(wide)
    largest = torch.cat([t.abs()[t.isfinite()].flatten() for t in (a, b)] + [torch.zeros(1)]).max()
    return torch.allclose(a, b, rtol=0.0, atol=share * float(largest), equal_nan=True)


def closeness(graph: _C.CapturedGraph) -> Callable[[torch.Tensor, torch.Tensor], bool]:
    """Whether two results of unequal bits, on the host, are what the graph and the plain call may give.

    Bits are equal where no recipe can be at work. A recipe may add in another order and keep more digits of float16 and
    bfloat16 than single operators do. So the difference may be `share` of the dtypes in the graph.
    """
    known = graph.describe()
    exact = not known["recipe"] and settings.get("OPENHPU_COMPILE") == "off"
    allowed = 0.0 if exact else share(known["dtypes"])
    return lambda a, b: bool(allowed) and close(a, b, allowed)


def amount(a: torch.Tensor, b: torch.Tensor) -> str:
    """How much two tensors differ, in words."""
    wide = torch.complex128 if a.is_complex() else torch.float64
    error = (a.to(wide) - b.to(wide)).abs()
    return f"{int((a != b).sum())} of {a.numel()} elements, by up to {float(error.max()):.3g}"
