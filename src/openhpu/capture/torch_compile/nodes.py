"""Questions about the nodes of FX graphs: their device, their writes, whether a capture can hold them."""

import operator
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx.experimental.symbolic_shapes import free_symbols, free_unbacked_symbols
from torch.utils._pytree import tree_iter

from openhpu.capture.torch_compile import kept_eager

# Namespaces of operators whose Python code, where they have any, is PyTorch's or ours, and reads nothing but operands.
_KNOWN = frozenset(
    {
        "aten",
        "ao",
        "bucketing",
        "device_mesh",
        "_dtensor",
        "flex_lib",
        "fsdp",
        "hpu",
        "openhpu",
        "prims",
        "quantized_decomposed",
        "rngprims",
        "semi_structured",
        "symm_mem",
        "torch_attn",
        "torch_nn",
    }
)
# Their host code decides by values, or reads and sets the state of a generator, in each call.
_HOST_OPERATORS = frozenset({"cond", "while_loop", "scan", "run_and_save_rng_state", "run_with_rng_state", "print"})


def values_of(node: fx.Node) -> Iterator[torch.Tensor]:
    """The tensors that the node returned while it was traced."""
    return (value for value in tree_iter(node.meta.get("val")) if isinstance(value, torch.Tensor))


def is_compute(node: fx.Node) -> bool:
    """Whether the node gives the device something to do: views, parts of tuples and sizes do not."""
    if node.op != "call_function":
        return node.op == "call_module"
    target = node.target
    if isinstance(target, OpOverload):
        return not target.is_view and target.namespace != "prims" and bool(list(values_of(node)))
    return isinstance(target, HigherOrderOperator)


def name_of(node: fx.Node) -> str:
    """The operator's name, as users know it."""
    target = node.target
    return target.name() if isinstance(target, OpOverload | HigherOrderOperator) else str(target)


def line_of(node: fx.Node) -> str:
    """Where the script calls the node's operator, with the line; empty if unknown."""
    lines = re.findall(r"^\s*(File .*)(?:\n\s*(\S.*))?", node.meta.get("stack_trace") or "", re.MULTILINE)
    return ": ".join(filter(None, lines[-1])) if lines else ""


def device_of(module: fx.GraphModule) -> torch.device | None:
    """The first hpu device on which a node of the module runs."""
    for node in module.graph.nodes:
        for value in values_of(node):
            if value.device.type == "hpu":
                return value.device
    return None


def constants(module: fx.GraphModule) -> Iterator[torch.Tensor]:
    """The tensors that are attributes of the module."""
    for node in module.graph.nodes:
        if node.op == "get_attr":
            value: Any = operator.attrgetter(str(node.target))(module)
            if isinstance(value, torch.Tensor):
                yield value


def is_dynamic(module: fx.GraphModule) -> bool:
    """Whether sizes of the graph differ from call to call, or are not known."""
    for node in module.graph.nodes:
        for value in tree_iter(node.meta.get("val")):  # without one: None
            if isinstance(value, torch.Tensor):
                if value.layout is torch.strided and free_symbols(value):
                    return True
            elif node.op == "placeholder" or isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
                return True
    return False


def written_placeholders(module: fx.GraphModule) -> frozenset[int]:
    """Positions of the inputs that the graph writes, by the operators' schemas."""
    memory: dict[fx.Node, fx.Node] = {}  # of views: the node whose memory it is
    written = set()
    for node in module.graph.nodes:
        if not isinstance(node.target, OpOverload):
            continue
        for argument, value in zip(node.target._schema.arguments, node.args, strict=False):
            if argument.alias_info is None:
                continue
            for part in tree_iter(value):
                if isinstance(part, fx.Node):
                    root = memory.get(part, part)
                    memory[node] = root
                    if argument.alias_info.is_write:
                        written.add(root)
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    return frozenset(i for i, node in enumerate(placeholders) if node in written)


def _computes_the_same(node: fx.Node, fixed: set[fx.Node]) -> bool:
    """Whether it computes on the CPU, and from nothing but `fixed` nodes."""
    target = node.target
    if not isinstance(target, OpOverload) or not fixed.issuperset(node.all_input_nodes):
        return False
    if target._schema.is_mutable or torch.Tag.nondeterministic_seeded in target.tags:
        return False
    return any(value.device.type == "cpu" for value in values_of(node))


def host_constants(module: fx.GraphModule) -> frozenset[fx.Node]:
    """Nodes on the CPU that compute the same in each call, from nothing but constants, for nodes on the device alone.

    A capture may hold their results.
    """
    fixed: set[fx.Node] = set()
    for node in module.graph.nodes:
        if node.op == "get_attr" or _computes_the_same(node, fixed):
            fixed.add(node)
    shrinking = True
    while shrinking:
        leaking = {
            node
            for node in fixed
            if node.op != "get_attr" and any(not _takes_constants(user, fixed) for user in node.users)
        }
        fixed -= leaking
        shrinking = bool(leaking)
    return frozenset(fixed)


def _takes_constants(node: fx.Node, fixed: set[fx.Node]) -> bool:
    return node in fixed or (node.op == "call_function" and any(v.device.type == "hpu" for v in values_of(node)))


def _has_static_shape(node: fx.Node) -> bool:
    """Whether the sizes of the node's results are known from those of its operands, though the operator's may not be.

    So are those of an index without masks, and sizes that the caller gives.
    """
    known = {symbol for source in node.all_input_nodes for symbol in free_unbacked_symbols(source.meta.get("val"))}
    return known.issuperset(free_unbacked_symbols(node.meta.get("val")))


def _is_in_python(op: OpOverload) -> bool:
    """Whether the script's own Python code computes the operator on hpu. The code may read what changes."""
    name = op.name().replace("::", "/")
    kernels = {f"{name}/{key}" for key in ("HPU", "CompositeExplicitAutograd")}
    return op.namespace not in _KNOWN and not kernels.isdisjoint(torch.library._impls)


def why_eager(node: fx.Node, device: torch.device, fixed: frozenset[fx.Node]) -> str | None:
    """Why no capture on `device` can hold the node; None if one may."""
    if node in fixed or node.op == "get_attr":
        return None
    if kept_eager.operators.names(node):
        return "hpu_fallback_op_list names it"
    if isinstance(node.target, OpOverload):
        tags = node.target.tags
        dynamic = torch.Tag.dynamic_output_shape in tags and not _has_static_shape(node)
        if torch.Tag.data_dependent_output in tags or dynamic:
            return "its result depends on values"
        if _is_in_python(node.target):
            return "its Python code runs in each call"
    elif isinstance(node.target, HigherOrderOperator) and node.target.name() in _HOST_OPERATORS:
        return "its host code runs in each call"
    for source in (node, *node.all_input_nodes):
        if source in fixed:
            continue
        for value in values_of(source):
            if value.device.type != device.type:
                return f"it works on {value.device}"
            if value.device.index not in (None, device.index):
                return f"it works on {value.device}, the graph on {device}"
    return None
