"""HPU Graphs: capture what a script does on the device once, replay it without the script."""

from openhpu.hpu.graphs.cacher import ModuleCacher
from openhpu.hpu.graphs.callables import make_graphed_callables
from openhpu.hpu.graphs.capture import HPUGraph, graph, is_current_stream_capturing
from openhpu.hpu.graphs.inference import CachedParams, wrap_in_hpu_graph, wrap_in_hpu_graph_func
from openhpu.hpu.graphs.structure import TensorPacker, input_hash

__all__ = [
    "CachedParams",
    "HPUGraph",
    "ModuleCacher",
    "TensorPacker",
    "graph",
    "input_hash",
    "is_current_stream_capturing",
    "make_graphed_callables",
    "wrap_in_hpu_graph",
    "wrap_in_hpu_graph_func",
]
