"""Whole numbers that an operator has by default are passed to operators that Inductor calls instead of generating.

Its code hands them to PyTorch's executor of such calls, whose description of the call leaves defaults out: the executor
refuses the call at run time (`index_add` of bfloat16 and its `alpha`).
"""

import torch
from torch.fx import GraphModule


def explicit_numbers(graph: GraphModule) -> None:
    """Give such calls these numbers."""
    from torch._inductor.lowering import fallbacks, lowerings

    for node in graph.graph.nodes:
        target = node.target
        if not isinstance(target, torch._ops.OpOverload) or (target in lowerings and target not in fallbacks):
            continue
        left = {
            argument.name: argument.default_value
            for argument in target._schema.arguments[len(node.args) :]
            if isinstance(argument.type, torch.NumberType) and type(argument.default_value) is int
        }
        node.kwargs = {**left, **node.kwargs}
