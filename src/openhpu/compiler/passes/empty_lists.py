"""Complex tensors without dimensions are handled without lists of sizes.

Inductor generates no code for complex numbers: it calls the operators, and PyTorch's executor of such calls gives an
operator None for an empty list.
"""

import torch
from torch.fx import GraphModule, Node

from openhpu.compiler.errors import CannotCompile

_aten = torch.ops.aten
_VIEWS = (_aten.expand.default, _aten.view.default, _aten.reshape.default, _aten.permute.default)


def empty_lists(graph: GraphModule) -> None:
    """Replace such calls. Raises CannotCompile for one that has no other form."""
    found = [node for node in graph.graph.nodes if node.op == "call_function" and _is_complex_number(node)]
    for node in found:
        with graph.graph.inserting_before(node):
            if node.target is _aten.copy.default and not node.args[1].meta["val"].dim():
                # Inductor would expand the source to the target's sizes.
                other = graph.graph.call_function(
                    torch.ops.prims.convert_element_type.default, (node.args[1], node.meta["val"].dtype)
                )
            elif node.target in _VIEWS and _has_empty_list(node):
                other = graph.graph.call_function(_aten.squeeze.default, (node.args[0],))
            else:
                continue
        other.meta.update(node.meta)
        node.replace_all_uses_with(other)
        graph.graph.erase_node(node)
    graph.graph.eliminate_dead_code()  # tensors that were only made to be written
    for node in graph.graph.nodes:
        if node in found and _has_empty_list(node):
            raise CannotCompile("complex numbers without dimensions", node.target.name())


def _is_complex_number(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_complex() and not value.dim()


def _has_empty_list(node: Node) -> bool:
    return any(isinstance(arg, (list, tuple)) and not arg for arg in node.args)
