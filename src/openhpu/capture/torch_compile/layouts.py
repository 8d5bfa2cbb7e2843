"""Layouts between forward and backward: operands and results of convolutions stay channels last.

A recipe computes on images channels last (`openhpu.compiler.passes.channels_last`) and returns each result with its
recorded strides. Without this module the saved activations would be converted at the end of forward and again at the
start of backward. Here the images are recorded channels last, as if a script in eager mode had asked for it. Results
for the script have the layout of the trace.
"""

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch._prims_common import suggest_memory_format

from openhpu.compiler.passes.channels_last import dependents, is_by_memory, is_convolution

_CONVOLUTION = torch.ops.aten.convolution.default


def partition(joint: fx.GraphModule, inputs: Sequence[Any], *, num_fwd_outputs: int, **options: Any) -> Any:
    """Forward and backward of a joint graph: PyTorch's min-cut partitioner, then `keep_channels_last`."""
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    forward, backward = min_cut_rematerialization_partition(
        joint, inputs, compiler="openhpu", num_fwd_outputs=num_fwd_outputs, **options
    )
    keep_channels_last(forward, backward, num_fwd_outputs)
    return forward, backward


def keep_channels_last(forward: fx.GraphModule, backward: fx.GraphModule, results: int) -> None:
    """Record the convolutions of `forward` channels last.

    `results`: how many of its outputs are not saved for backward. None where strides would be seen: by operators that
    depend on them, custom ones included, and in results that are not contiguous. None where the script has images
    channels last: of what is computed from those tracing does not tell the strides.
    """
    convolutions = [node for node in forward.graph.nodes if node.target is _CONVOLUTION and is_convolution(node)]
    if not convolutions or not torch.backends.mkldnn.is_available():
        return
    after = dependents(convolutions)
    (output,), (gradients,) = (graph.find_nodes(op="output") for graph in (forward.graph, backward.graph))
    ours, saved = list(output.args[0][:results]), list(output.args[0][results:])
    theirs = list(gradients.args[0])
    seen = [x for x in (*ours, *theirs) if _has_order(x) and (x in after or x.graph is backward.graph)]
    computed = [node for node in (*after, *backward.graph.nodes) if node.op not in ("placeholder", "output")]
    if any(map(_is_channels_last, forward.graph.nodes)) or any(map(_sees_strides, computed)):
        return
    if not all(x.meta["val"].is_contiguous() for x in seen):
        return
    images = {node.args[0]: node for node in reversed(convolutions)}  # and the first convolution of each
    for x, first in images.items():
        images[x] = _laid_out(x, torch.channels_last, first)
    for node in convolutions:
        node.update_arg(0, images[node.args[0]])
    kept = {x: _laid_out(x, torch.contiguous_format, output if x.graph is forward.graph else gradients) for x in seen}
    output.args = ((*(kept.get(x, x) for x in ours), *(images.get(x, x) for x in saved)),)
    gradients.args = (tuple(kept.get(x, x) for x in theirs),)
    forward.recompile()
    backward.recompile()


def _has_order(x: Any) -> bool:
    value = x.meta.get("val") if isinstance(x, fx.Node) else None
    return isinstance(value, torch.Tensor) and value.layout is torch.strided and value.dim() > 1


def _is_channels_last(node: fx.Node) -> bool:
    return _has_order(node) and suggest_memory_format(node.meta["val"]) is torch.channels_last


def _sees_strides(node: fx.Node) -> bool:
    if node.target is operator.getitem:
        return False
    ours = isinstance(node.target, OpOverload) and node.target.namespace in ("aten", "prims")
    return not ours or is_by_memory(node)


def _laid_out(x: fx.Node, order: torch.memory_format, before: fx.Node) -> fx.Node:
    """Nothing happens where it lies so already."""
    with before.graph.inserting_before(before):
        made = before.graph.call_function(torch.ops.aten.contiguous.default, (x,), {"memory_format": order})
    made.meta["val"] = x.meta["val"]  # its strides are asked for no more
    return made
