"""An account of HPU graphs, for those who listen: the event `hpu_graph`, one for each capture."""

import time
from typing import Any

import torch

from openhpu import _C
from openhpu.capture.hpu_graphs.structure import Walk
from openhpu.observe import events

_EVENT = "hpu_graph"
_MOST_PARTS = 64  # of the arguments of a call that are described
_MOST_TEXT = 60  # characters
_PLAIN = (bool, int, float, str, type(None), torch.dtype)


class Capturing:
    """From here to `done` a graph is captured, for `owner`: a function, or "" for a capture by hand."""

    def __init__(self, owner: Any = "") -> None:
        self._wanted = events.wanted(_EVENT)
        if self._wanted:
            self._owner = owner if isinstance(owner, str) else getattr(owner, "__qualname__", type(owner).__name__)
            self._began = time.perf_counter()
            self._site = _C.current_site()

    def done(self, *graphs: _C.CapturedGraph, given: Walk | None = None) -> None:
        """The graphs of one call are there, with its arguments; replays of the first one count."""
        if not self._wanted:
            return
        described = [graph.describe() for graph in graphs if graph.captured()]
        params = {
            "owner": self._owner,
            "inputs": inputs(given) if given else {},
            "operators": sum(each["operators"] for each in described),
            "bytes": sum(each["bytes"] for each in described),
            "ms": 1e3 * (time.perf_counter() - self._began),
            "replays": graphs[0].replays(),
        }
        events.publish(_EVENT, params, self._site)


def inputs(walk: Walk) -> dict[str, str]:
    """The tensors and plain values among the arguments of a call, by their place: `float32[4, 128]`, `True`."""
    found = {walk.place(tensor): _text(tensor) for tensor in walk.tensors[:_MOST_PARTS]}
    for node in walk.nodes()[:_MOST_PARTS]:
        names = {node.name(i): part for i, part in enumerate(node.parts) if isinstance(part, _PLAIN)}
        owner = walk.place(node.value) if names else ""
        found |= {owner + name: _text(part) for name, part in names.items() if not name.startswith(".keys()")}
    return dict([*found.items()][:_MOST_PARTS])


def _text(part: Any) -> str:
    if isinstance(part, torch.Tensor):
        return f"{str(part.dtype).removeprefix('torch.')}{list(part.shape)}"
    return repr(part)[:_MOST_TEXT]
