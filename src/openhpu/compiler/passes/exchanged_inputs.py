"""A graph in which inputs change places (a swap, a rotation) is refused, and runs node by node.

Writes into inputs are copies at the end of the graph. Inductor takes a copy of an input for the input itself. So the
second of two such copies would read the result of the first.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node

from openhpu.compiler.errors import CannotCompile

# Operators whose result has the contents of an argument, in other memory.
_COPIES = {
    torch.ops.aten.clone.default: 0,
    torch.ops.aten.copy.default: 1,
    torch.ops.aten.lift_fresh_copy.default: 0,
    torch.ops.aten._to_copy.default: 0,
}


def exchanged_inputs(graph: GraphModule) -> None:
    """Raises CannotCompile where an input gets the contents of another that was overwritten before."""
    written: set[Node] = set()
    for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default):
        target, source = node.args[0], node.args[1]
        if isinstance(source, Node) and origin(source) in written:
            raise CannotCompile(
                "tensors exchange their contents in it, which needs a copy of each first", "aten::copy_"
            )
        written.add(origin(target))  # type: ignore[arg-type]


def origin(node: Node, copies: Mapping[Any, int] = _COPIES) -> Node:
    """The node whose contents this one has, as a view or by one of these operators."""
    while node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
        place = 0 if node.target.is_view else copies.get(node.target)
        if place is None or not isinstance(node.args[place], Node):
            break
        node = node.args[place]  # type: ignore[assignment]
    return node
