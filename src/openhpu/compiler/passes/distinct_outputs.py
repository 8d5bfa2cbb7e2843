"""A returned tensor that is another returned tensor, an input, or a view of one, becomes a copy.

The device adopts a result of a recipe as a slot of its own.
"""

import torch
from torch.fx import GraphModule, Node

from openhpu.compiler.passes.exchanged_inputs import origin


def distinct_outputs(graph: GraphModule) -> None:
    """Insert the copies. Strides of the results stay."""
    output = graph.graph.output_node()
    taken: set[Node] = set(graph.graph.find_nodes(op="placeholder"))
    results = list(output.args[0])  # type: ignore[arg-type]
    for i, result in enumerate(results):
        if not isinstance(result, Node):
            continue
        root = origin(result, copies={})
        if root in taken:
            with graph.graph.inserting_before(output):
                copy = graph.graph.call_function(torch.ops.aten.clone.default, (result,))
            copy.meta = dict(result.meta)
            results[i] = copy
        else:
            taken.add(root)
    output.args = (tuple(results),)
