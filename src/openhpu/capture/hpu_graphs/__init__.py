"""HPU Graphs: capture the work of a script on the device once, and replay it without the script."""

from openhpu.capture.hpu_graphs.cacher import ModuleCacher
from openhpu.capture.hpu_graphs.callables import make_graphed_callables
from openhpu.capture.hpu_graphs.capture import HPUGraph, graph, is_current_stream_capturing
from openhpu.capture.hpu_graphs.structure import TensorPacker, copy_to as copy_to, input_hash as input_hash
from openhpu.capture.hpu_graphs.wrapping import CachedParams, wrap_in_hpu_graph, wrap_in_hpu_graph_func

__all__ = [
    "CachedParams",
    "HPUGraph",
    "ModuleCacher",
    "TensorPacker",
    "graph",
    "is_current_stream_capturing",
    "make_graphed_callables",
    "wrap_in_hpu_graph",
    "wrap_in_hpu_graph_func",
]
