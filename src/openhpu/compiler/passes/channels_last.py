"""Convolutions work on channels-last tensors, and each tensor is converted once.

oneDNN needs channels last, and Inductor converts at each use. It wrote the operand of a convolution of a training step
three times: unchanged, for the convolution, and for its backward. Generated loops ran over both layouts. This pass asks
for the layout where a tensor is made, so that all its users find it. The recipe of the benchmarks' ConvNet takes 0.85
of the time. Weights, which are inputs, are converted once a step for forward and backward. Results keep their strides.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import is_concrete_int

_aten = torch.ops.aten
# Operands that share the layout, and where the operator says that it is a transposed one.
_CONVOLUTIONS: dict[Any, tuple[tuple[int, ...], int]] = {
    _aten.convolution.default: ((0, 1), 6),
    _aten.convolution_backward.default: ((0, 1, 2), 7),
}
# These depend on how their operand lies in memory.
_BY_MEMORY = (_aten.as_strided, _aten.as_strided_copy, _aten.as_strided_scatter, _aten.view_as_complex)
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def channels_last(graph: GraphModule) -> int:
    """Returns how many tensors were given the layout: none where a result's strides could not be kept."""
    if not torch.backends.mkldnn.is_available():
        return 0
    convolutions = [node for node in graph.graph.nodes if is_convolution(node)]
    operands = list(dict.fromkeys(x for node in convolutions for x in _operands(node)))
    if not operands:
        return 0
    after = dependents([*convolutions, *(user for x in operands if not _is_given(x) for user in x.users)])
    output = next(iter(graph.graph.find_nodes(op="output")))
    made_here = after.union(x for x in operands if not _is_given(x))
    results = [x for x in output.args[0] if x in made_here and _value(x).dim() > 1]
    if any(is_by_memory(node) for node in after) or not all(_is_dense(_value(x)) for x in results):
        return 0
    first = next(node for node in graph.graph.nodes if node.op != "placeholder")
    for x in operands:
        made = _insert(graph, x, first if x.op == "placeholder" else x.next, _channels_last_strides(_value(x)))
        for user in list(x.users):
            if user not in (made, output) and (not _is_given(x) or user in convolutions):
                user.replace_input_with(x, made)
    kept = {x: _insert(graph, x, output, _concrete(_value(x).stride())) for x in results}
    output.args = (tuple(kept.get(x, x) for x in output.args[0]), *output.args[1:])
    return len(operands)


def _insert(graph: GraphModule, x: Node, before: Node, strides: list[int]) -> Node:
    import torch._inductor.inductor_prims  # registers the operator

    with graph.graph.inserting_before(before):
        made = graph.graph.call_function(torch.ops.prims.inductor_force_stride_order.default, (x, strides))
    made.meta["val"] = _value(x).new_empty_strided(_value(x).shape, strides)
    return made


def is_convolution(node: Node) -> bool:
    """Of images, in a dtype for which oneDNN has code, and not a transposed one, whose weights are turned."""
    if node.target not in _CONVOLUTIONS:
        return False
    return not node.args[_CONVOLUTIONS[node.target][1]] and all(
        x.dim() == 4 and x.dtype in _DTYPES and _channels_last_strides(x) for x in map(_value, _operands(node))
    )


def _operands(node: Node) -> list[Any]:
    return [node.args[k] for k in _CONVOLUTIONS[node.target][0]]


def _value(node: Any) -> Any:
    return node.meta["val"]


def _channels_last_strides(value: torch.Tensor) -> list[int]:
    """Nothing where they would be symbols. The number of images may be one."""
    _, channels, height, width = value.shape
    return _concrete([channels * height * width, 1, width * channels, channels])


def _concrete(numbers: Sequence[int]) -> list[int]:
    return [int(n) for n in numbers] if all(is_concrete_int(n) for n in numbers) else []


def _is_dense(value: torch.Tensor) -> bool:
    """Whether its strides are known, and are those of a permuted contiguous tensor."""
    strides = _concrete(value.stride())
    expected: int = 1
    for stride, size in sorted(zip(strides, value.shape, strict=False), key=lambda pair: pair[0]):
        if not is_concrete_int(expected) or stride != expected:
            return False
        expected = expected * size
    return bool(strides)


def _is_given(x: Node) -> bool:
    """Inputs, and how they are looked at: others may need them as they lie."""
    return x.op == "placeholder" or (is_by_memory(x) and x.args[0].op == "placeholder")  # type: ignore[union-attr]


def is_by_memory(node: Node) -> bool:
    packet = getattr(node.target, "overloadpacket", None)
    return packet in _BY_MEMORY or node.target is _aten.view.dtype


def dependents(nodes: list[Node]) -> set[Node]:
    """These nodes and the nodes that are computed from them, without the output."""
    found = {node for node in nodes if node.op != "output"}
    left = list(found)
    while left:
        for user in left.pop().users:
            if user not in found and user.op != "output":
                found.add(user)
                left.append(user)
    return found
