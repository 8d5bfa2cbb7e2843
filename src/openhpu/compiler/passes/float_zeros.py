"""`x * 0` of a floating tensor becomes `x * 0.0`.

Inductor replaces a product with the integer 0 by zeros, which loses NaN and infinity.
"""

import torch
from torch.fx import GraphModule

_PRODUCTS = (torch.ops.aten.mul.Tensor, torch.ops.aten.mul.Scalar)


def float_zeros(graph: GraphModule) -> None:
    """Replace such factors."""
    for target in _PRODUCTS:
        for node in graph.graph.find_nodes(op="call_function", target=target):
            if not node.meta["val"].dtype.is_floating_point:
                continue
            for position, arg in enumerate(node.args):
                if type(arg) is int and arg == 0:
                    node.update_arg(position, 0.0)
