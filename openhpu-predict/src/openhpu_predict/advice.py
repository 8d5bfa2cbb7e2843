"""What would help: the step is predicted again with one thing changed, and sentences compare the two."""

import dataclasses
from collections.abc import Callable

import torch

from openhpu_predict.cost import Timeline
from openhpu_predict.recording import Node, Site

_LINES = 10  # whose cuts are predicted one by one
_WORTH = 0.02  # the share of a step's time from which on a change is worth a sentence


def cuts(
    timeline: Timeline, nodes: list[Node], again: Callable[[list[Node]], Timeline]
) -> tuple[float, dict[Site | None, float]]:
    """What all reads cost, and those of each line, in seconds. `again`: the schedule of other nodes."""

    def without(*sites: Site | None) -> float:
        left = [dataclasses.replace(one, cut="") if one.cut == "read" and one.site in sites else one for one in nodes]
        return max(timeline.seconds - again(left).seconds, 0.0)

    lines = list(timeline.read_lines)
    if not lines:
        return 0.0, {}
    return without(*lines), {site: without(site) for site in lines[:_LINES]}


def what_helps(
    timeline: Timeline, nodes: list[Node], again: Callable[..., Timeline], cut_seconds: float, eager: bool
) -> list[str]:
    """The sentences, those that save most first."""
    found: list[tuple[float, str]] = []

    def compare(what: str, then: Timeline, same_peak: bool = True) -> None:
        saved = timeline.seconds - then.seconds
        if saved >= _WORTH * timeline.seconds:
            use = f", MME utilisation {timeline.mme_utilisation:.0%} -> {then.mme_utilisation:.0%}" * same_peak
            found.append((saved, f"{what}: {time_text(timeline.seconds)} -> {time_text(then.seconds)}{use}"))

    if eager:
        compare("graphs (lazy mode, torch.compile) save launches of operators", again(nodes, eager=False))
    if cut_seconds >= _WORTH * timeline.seconds:
        rest = time_text(timeline.seconds - cut_seconds)
        found.append((cut_seconds, f"without the reads: {time_text(timeline.seconds)} -> {rest}"))
    narrow = [
        dataclasses.replace(one, dtype=torch.bfloat16) if one.products and one.dtype is torch.float32 else one
        for one in nodes
    ]
    if any(one is not old for one, old in zip(narrow, nodes, strict=True)):
        compare("matrix products in bfloat16 (torch.autocast), their bytes as they are", again(narrow), same_peak=False)
    return [sentence for _, sentence in sorted(found, reverse=True)]


def time_text(seconds: float) -> str:
    """With its unit."""
    for factor, unit in ((1, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.2f} {unit}"
    return f"{seconds * 1e6:.0f} us"
