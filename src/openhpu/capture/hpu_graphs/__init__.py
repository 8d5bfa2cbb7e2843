"""HPU Graphs: capture the work of a script on the device once, and replay it without the script.

Most scripts capture nothing, so each name is imported when it is asked for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openhpu.capture.hpu_graphs.cacher import ModuleCacher
    from openhpu.capture.hpu_graphs.callables import make_graphed_callables
    from openhpu.capture.hpu_graphs.capture import HPUGraph, graph
    from openhpu.capture.hpu_graphs.structure import TensorPacker, copy_to as copy_to, input_hash as input_hash
    from openhpu.capture.hpu_graphs.wrapping import CachedParams, wrap_in_hpu_graph, wrap_in_hpu_graph_func

__all__ = [
    "CachedParams",
    "HPUGraph",
    "ModuleCacher",
    "TensorPacker",
    "graph",
    "make_graphed_callables",
    "wrap_in_hpu_graph",
    "wrap_in_hpu_graph_func",
]

_FROM = {
    "ModuleCacher": "cacher",
    "make_graphed_callables": "callables",
    **dict.fromkeys(("HPUGraph", "graph"), "capture"),
    **dict.fromkeys(("TensorPacker", "copy_to", "input_hash"), "structure"),
    **dict.fromkeys(("CachedParams", "wrap_in_hpu_graph", "wrap_in_hpu_graph_func"), "wrapping"),
}


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_FROM[name]}"), name)
