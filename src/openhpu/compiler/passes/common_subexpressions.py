"""Equal operators on equal operands become one.

A script computes the same more than once, and so do autograd and the optimizers: masks, transposes, bias corrections.
Inductor merges what is equal inside of a loop only.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable
from typing import Any

import torch
from torch.fx import GraphModule, Node


def common_subexpressions(graph: GraphModule) -> int:
    """Replace later ones by the first; returns how many. Results that become one are told apart by
    `distinct_outputs`, which has to run afterwards."""
    first: dict[Hashable, Node] = {}
    count = 0
    for node in list(graph.graph.nodes):
        if not _is_pure(node):
            continue
        key = (node.target, _key(node.args), _key(node.kwargs))
        known = first.setdefault(key, node)
        if known is not node:
            node.replace_all_uses_with(known)
            graph.graph.erase_node(node)
            count += 1
    return count


def _is_pure(node: Node) -> bool:
    """Whether the node's result depends on its operands only. Copies into inputs stand at the end of the graph, so no
    operand changes between two uses."""
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return True
    if not isinstance(node.target, torch._ops.OpOverload) or node.target._schema.is_mutable:
        return False
    if torch.Tag.nondeterministic_seeded in node.target.tags or "unbacked_bindings" in node.meta:
        return False
    return bool(node.target._schema.returns)


def _key(value: Any) -> Hashable:
    """Equal for arguments that mean the same: 1, 1.0 and True do not."""
    if isinstance(value, Node):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(map(_key, value))
    if isinstance(value, dict):
        return tuple((name, _key(item)) for name, item in sorted(value.items()))
    return type(value).__name__, repr(value)
