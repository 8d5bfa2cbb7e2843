"""What the host does itself in each call of a compiled graph: effects, and computations of numbers on the CPU.

Neither is work for the device, so neither is an eager fallback. The graph is cut where they stand.
"""

import operator
from typing import Any

import torch
from torch import fx
from torch._ops import HigherOrderOperator, OpOverload

from openhpu.capture.torch_compile.nodes import host_constants, values_of


def _is_effect(target: Any) -> bool:
    """Whether the operator has neither results nor writes, and is Python code or made of other operators.

    Such are those of streams and events, checks of values, messages.
    """
    return (
        isinstance(target, OpOverload)
        and not target._schema.returns
        and not target._schema.is_mutable
        and not torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), "CPU")
    )


def _has_values(node: fx.Node) -> bool:
    return any(True for _ in values_of(node))


def effects(module: fx.GraphModule) -> frozenset[fx.Node]:
    """The nodes that are called for their effect alone. Checks of sizes are none: a capture holds for its sizes."""
    calls = [node for node in module.graph.nodes if node.op == "call_function" and _is_effect(node.target)]
    return frozenset(node for node in calls if all(map(_has_values, node.all_input_nodes)))


def unwrap_effects(module: fx.GraphModule) -> None:
    """Let effects stand in the graph as in the function: nodes keep their order here.

    AOTAutograd orders them by a token, a tensor that each gets from the one before.
    """
    graph = module.graph
    for node in graph.find_nodes(op="call_function", target=torch.ops.higher_order.with_effects):
        token, target, *args = node.args
        if _is_effect(target):
            with graph.inserting_before(node):
                graph.call_function(target, tuple(args), node.kwargs).meta.update(node.meta, val=None)
            for part in list(node.users):
                part.replace_all_uses_with(token)
                graph.erase_node(part)
            graph.erase_node(node)
    module.recompile()


def hoist_numbers(module: fx.GraphModule, device: torch.device) -> frozenset[fx.Node]:
    """Move what is computed from numbers on the CPU to the start of the graph, with copies for `device`.

    A number is a tensor without dimensions, as Dynamo makes of a float. Returns the nodes that the host runs in each
    call: these, and writes to numbers, which stay where they are. What it computes from constants alone is not among
    them.
    """
    graph = module.graph
    ready, moved, writes = _of_numbers(module)
    first = next(node for node in graph.nodes if node.op != "placeholder" and node not in moved)
    for node in [node for node in graph.nodes if node in moved]:
        first.prepend(node)
        for source in node.all_input_nodes:
            if source.op == "get_attr":
                with graph.inserting_before(node):
                    node.replace_input_with(source, graph.get_attr(source.target))
    for node in [node for node in graph.nodes if node in moved or (node in ready and node.op == "placeholder")]:
        users = [k for k in node.users if k not in moved and any(v.device.type == "hpu" for v in values_of(k))]
        if users and isinstance(node.meta["val"], torch.Tensor):
            with graph.inserting_before(first):
                copy = graph.call_function(torch.ops.aten._to_copy.default, (node,), {"device": device})
            copy.meta["val"] = torch.empty_like(node.meta["val"], device=device)
            for user in users:
                user.replace_input_with(node, copy)
            moved.add(copy)
    module.recompile()
    return frozenset(moved | writes)


def _of_numbers(module: fx.GraphModule) -> tuple[set[fx.Node], set[fx.Node], set[fx.Node]]:
    """The nodes whose numbers are known when a call begins, those that the host computes from such, and its writes."""
    graph = module.graph
    fixed = host_constants(module)
    ready: set[fx.Node] = set()
    moved: set[fx.Node] = set()
    writes: set[fx.Node] = set()
    for node in graph.nodes:
        if not _is_number(node, module) or not all(source in ready for source in node.all_input_nodes):
            continue
        if isinstance(node.target, OpOverload):
            if torch.Tag.nondeterministic_seeded in node.target.tags:
                continue
            if node.target._schema.is_mutable:
                writes.add(node)
                continue
            if node not in fixed:
                moved.add(node)
        if not isinstance(node.target, HigherOrderOperator):
            ready.add(node)
    for node in reversed(graph.nodes):  # and what they are computed from
        if node in moved:
            moved.update(source for source in node.all_input_nodes if source.op == "call_function")
    return ready, moved, writes


def _is_number(node: fx.Node, module: fx.GraphModule) -> bool:
    value = operator.attrgetter(str(node.target))(module) if node.op == "get_attr" else node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return value.device.type == "cpu" and value.dim() == 0
    return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool | int | float)
