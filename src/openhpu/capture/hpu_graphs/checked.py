"""Which graphs are checked (OPENHPU_CHECK_GRAPHS), and what a plain call gives its check.

Most processes check no graph, so the check itself (`check`) is imported with the first one.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from openhpu import settings
from openhpu.capture.hpu_graphs.capture import HPUGraph
from openhpu.capture.hpu_graphs.outcome import Outcome

if TYPE_CHECKING:
    from openhpu.capture.hpu_graphs.check import Check


class Plain(NamedTuple):
    """What a plain call made."""

    results: list[torch.Tensor]
    written: list[tuple[torch.Tensor, torch.Tensor]]  # what a replay changes, and what the plain call wrote to instead
    outcome: Outcome | None = None


def check_of(function: Callable[..., Any], graph: HPUGraph, kind: str = "", **known: Any) -> "Check | None":
    """The check of a graph that was captured just now, with OPENHPU_CHECK_GRAPHS; otherwise None."""
    if not settings.get("OPENHPU_CHECK_GRAPHS"):
        return None
    from openhpu.capture.hpu_graphs import check

    return check.begin(function, graph, kind, **known)
