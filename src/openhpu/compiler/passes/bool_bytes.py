"""The bytes of a bool are numbers, not reinterpreted memory.

Copies of bools are recorded as copies of their bytes. Inductor writes a reinterpretation of bools as bytes, and back,
as C++ that does not compile. Of 0 and 1 a conversion makes the same bytes; others do not survive it.
"""

import torch
from torch.fx import GraphModule

_aten = torch.ops.aten


def bool_bytes(graph: GraphModule) -> None:
    """Reinterpretations become conversions."""
    for node in graph.graph.find_nodes(op="call_function", target=_aten.view.dtype):
        source, dtype = node.args
        if {source.meta["val"].dtype, dtype} == {torch.bool, torch.uint8}:
            node.target = torch.ops.prims.convert_element_type.default
