"""Compares what a card computed with what this device computes, one call at a time."""

import math
from typing import Any, NamedTuple

import torch

from openhpu.capture.hpu_graphs import compared
from openhpu.observe import differences
from openhpu_record.probe.table import OUTSIDE

EQUAL, CLOSE, DIFFERENT = "equal", "close", "different"
REFUSED_THERE, REFUSED_HERE, BOTH_REFUSE = "refused there", "refused here", "both refuse"
UNKNOWN, UNCHECKED = "unknown", "unchecked"
OUTCOMES = (EQUAL, CLOSE, DIFFERENT, REFUSED_THERE, REFUSED_HERE, BOTH_REFUSE, UNKNOWN, UNCHECKED)
FOUND = (DIFFERENT, REFUSED_THERE, REFUSED_HERE)  # what a reader has to look at
_SIGMAS = 6.0  # of the mean of random numbers
_DECILE = 0.03  # of the range between the outer deciles
Outcome = dict[str, Any]  # of outcomes.run


class Verdict(NamedTuple):
    """What came of a call: one of OUTCOMES, how, the largest relative difference, and a kind of difference."""

    outcome: str
    how: str = ""
    largest: float = 0.0
    kind: str = ""  # of differences.toml, or a new one


def verdict(call: dict[str, Any], there: Outcome, here: Outcome) -> Verdict:
    """Compare the outcome of a card with ours. Numbers agree within the tolerance of the coarsest dtype."""
    if "skipped" in there:
        return Verdict(UNCHECKED, there["skipped"])
    card, ours = there.get("error"), here.get("error")
    if card and card["missing"]:
        return Verdict(UNKNOWN, "the card has no such operator")
    if ours and ours["missing"]:
        return Verdict(UNKNOWN, ours["text"])
    if ours and ours.get("too_large"):
        return Verdict(UNCHECKED, ours["text"])
    if card and ours:
        return Verdict(BOTH_REFUSE)
    if card:
        return Verdict(REFUSED_THERE, f"{card['type']}: {card['text']}", kind=_refused(call, "there"))
    if ours:
        return Verdict(REFUSED_HERE, f"{ours['type']}: {ours['text']}", kind=_refused(call, "here"))
    if len(there["results"]) != len(here["results"]):
        return Verdict(DIFFERENT, f"{len(there['results'])} results there, {len(here['results'])} here", math.inf)
    found = [_one(call, a, b) for a, b in zip(there["results"], here["results"], strict=True)]
    worst = max(found, key=lambda one: (one.outcome == DIFFERENT, one.largest), default=Verdict(EQUAL))
    if worst.outcome == EQUAL:
        return next((one for one in found if one.outcome == UNCHECKED), worst)
    return worst


def _one(call: dict[str, Any], there: Outcome, here: Outcome) -> Verdict:
    """Two results."""
    for what in ("dtype", "shape"):
        if there[what] != here[what]:
            return Verdict(DIFFERENT, f"the {what} is {there[what]} there, {here[what]} here", math.inf, f"{what}")
    if "repeats" in there and "repeats" in here:
        return _drawn(there, here)
    if there.get("hash") is not None and (there["hash"], there["step"]) == (here.get("hash"), here.get("step")):
        return Verdict(EQUAL)
    a, b = there.get("values"), here.get("values")
    if a is None or b is None or a.shape != b.shape or not a.numel():
        return Verdict(UNCHECKED, "the recording keeps no numbers of this result")
    dtype = compared.coarsest([getattr(torch, name, None) for name in _dtypes(call, there)])
    row = there["shape"][-1] if there["shape"] else 1
    close = compared.close(a, b, compared.share(dtype), row, max(there["step"], 1))
    how = compared.amount(a, b)
    if close:
        return Verdict(EQUAL if torch.equal(compared.bits(a), compared.bits(b)) else CLOSE, how, _largest(a, b))
    return Verdict(DIFFERENT, how, _largest(a, b), _kind(call, a, b))


def _dtypes(call: dict[str, Any], result: Outcome) -> list[str]:
    """Of the result, and of the operands where these are coarser and no rounding of ours."""
    return [result["dtype"], *([call["dtype"]] if "dtype" in call else [])]


def _largest(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest difference of two elements by the larger of them; infinite where one alone is not finite."""
    wide = torch.complex128 if a.is_complex() else torch.float64
    a, b = a.to(wide), b.to(wide)
    differs = (a != b) & ~(a.isnan() & b.isnan())
    if not differs.any():
        return 0.0
    a, b = a[differs], b[differs]
    share = (a - b).abs() / torch.maximum(a.abs(), b.abs())
    return float(share.nan_to_num(math.inf).max())


def _drawn(there: Outcome, here: Outcome) -> Verdict:
    """Random numbers: their mean, their deciles, and whether a seed gives the same ones again."""
    if there["repeats"] != here["repeats"]:
        text = "a seed gives the same numbers again {} alone"
        return Verdict(DIFFERENT, text.format("there" if there["repeats"] else "here"), math.inf, "seeds")
    a, b = there["numbers"], here["numbers"]
    spread = math.sqrt(max(b["rms"] ** 2 - b["mean"] ** 2, 0.0))
    allowed = _SIGMAS * spread * math.sqrt(2 / max(b["of"], 1)) + 4e-3 * abs(b["mean"])
    if abs(a["mean"] - b["mean"]) > allowed:
        return Verdict(DIFFERENT, f"the mean is {a['mean']:.4g} there, {b['mean']:.4g} here", math.inf, "distribution")
    if not (there["deciles"] and here["deciles"]):
        return Verdict(CLOSE, "other numbers of the same mean")
    width = here["deciles"][9] - here["deciles"][1]
    for k, (one, other) in enumerate(zip(there["deciles"][1:-1], here["deciles"][1:-1], strict=True), 1):
        if abs(one - other) > _DECILE * width + 1e-6:
            how = f"the decile {k} is {one:.4g} there, {other:.4g} here"
            return Verdict(DIFFERENT, how, abs(one - other) / (width or 1.0), "distribution")
    return Verdict(CLOSE, "other numbers of the same distribution")


def _refused(call: dict[str, Any], where: str) -> str:
    if call.get("family") == "indices" and _has_rule(call, OUTSIDE):
        return "index-out-of-range"
    if call.get("dtype") in ("float64", "int64") and _has_rule(call, ("wide", "edge", "large")):
        return f"{call['dtype']}-range"
    return f"refused {where}"


def _kind(call: dict[str, Any], there: torch.Tensor, here: torch.Tensor) -> str:
    """What kind of difference the numbers show; empty for none that is known."""
    if call.get("family") == "indices" and _has_rule(call, OUTSIDE):
        return "index-out-of-range"
    if here.dtype is torch.int64 and torch.equal(there, here.to(torch.int32).to(torch.int64)):
        return "int64-arithmetic"
    if here.dtype is torch.float64 and torch.equal(there, here.float().double()):
        return "float64-as-float32"
    if here.dtype is torch.float8_e4m3fn:
        within = here.float().abs() <= 240
        if not within.all() and torch.equal(there.float()[within], here.float()[within]):
            return "e4m3-range"
    if here.is_floating_point() and here.dtype.itemsize > 1:
        differs = (there != here) & ~(there.isnan() & here.isnan())
        tiny = here.abs() < torch.finfo(here.dtype).tiny
        if bool((tiny & (there == 0))[differs].all()):
            return "subnormal-as-zero"
    return ""


def _has_rule(call: dict[str, Any], rules: tuple[str, ...]) -> bool:
    """Whether an input is made by one of the rules."""

    def made(value: Any) -> bool:
        if isinstance(value, list):
            return any(made(one) for one in value)
        return isinstance(value, dict) and value.get("tensor", {}).get("made", {}).get("rule") in rules

    return made(call["args"])


def known(kind: str) -> bool:
    """Whether the table of differences has this kind."""
    return kind in differences.BY_KIND
