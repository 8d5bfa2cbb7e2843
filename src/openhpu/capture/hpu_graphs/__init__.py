"""HPU Graphs: capture the work of a script on the device once, and replay it without the script."""

from openhpu.capture.hpu_graphs.cacher import ModuleCacher as ModuleCacher
from openhpu.capture.hpu_graphs.callables import make_graphed_callables as make_graphed_callables
from openhpu.capture.hpu_graphs.capture import (
    HPUGraph as HPUGraph,
    graph as graph,
    is_current_stream_capturing as is_current_stream_capturing,
)
from openhpu.capture.hpu_graphs.structure import TensorPacker as TensorPacker, input_hash as input_hash
from openhpu.capture.hpu_graphs.wrapping import (
    CachedParams as CachedParams,
    wrap_in_hpu_graph as wrap_in_hpu_graph,
    wrap_in_hpu_graph_func as wrap_in_hpu_graph_func,
)
