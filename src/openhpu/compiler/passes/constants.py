"""Weights as constants: inputs whose contents are known are folded, and laid out for generated products."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule

from openhpu.compiler.program import sections
from openhpu.compiler.program.plan import Slot
from openhpu.compiler.program.program import Program


def slots(program: Program) -> list[Slot]:
    """The program's inputs that are constants of its recipe: known, and not written by it."""
    known = program.description.get("constants", {})
    return [slot for slot in program.plan.inputs if slot.index in known and not slot.mutated]


def compile_in(program: Program, graph: GraphModule, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Replace these inputs of the traced graph by their contents, and compute the nodes that depend only on them.

    `inputs` are the fake tensors of all inputs in order; returns those of the inputs that are left.
    """
    constants = slots(program)
    if not constants:
        return list(inputs)
    from torch._inductor import config
    from torch._inductor.constant_folding import constant_fold
    from torch._inductor.freezing import replace_node_with_constant
    from torch._inductor.freezing_utils import enter_freezing
    from torch._inductor.fx_passes.freezing_patterns import freezing_passes
    from torch._inductor.fx_passes.post_grad import view_to_reshape
    from torch._inductor.virtualized import V

    contents = program.description["constants"]
    placeholders = graph.graph.find_nodes(op="placeholder")
    left = list(inputs)
    fake_mode = inputs[0].fake_mode  # type: ignore[attr-defined]
    fake_mode.allow_non_fake_inputs = True  # constants are real
    with (
        enter_freezing(),
        V.set_fake_mode(fake_mode),
        V.set_aot_compilation(True),
        # MKL's packed weights can't be stored; oneDNN's operators on packed ones take 15 us each for small products.
        config.patch({"freezing": True, "cpp.weight_prepack": False}),
        torch.no_grad(),
    ):
        view_to_reshape(graph)
        for number in reversed(range(len(program.plan.inputs))):
            slot = program.plan.inputs[number]
            if slot in constants:
                replace_node_with_constant(graph, placeholders[number], _tensor(slot, contents[slot.index]))
                del left[number]
        graph.recompile()
        freezing_passes(graph, left)
        constant_fold(graph)
        _by_rows(graph, fake_mode)
    return left


def _tensor(slot: Slot, section: bytes | Path) -> torch.Tensor:
    dtype, sizes, strides, offset = slot.base
    storage = torch.frombuffer(bytearray(sections.contents(section)), dtype=torch.uint8).untyped_storage()
    view = torch.empty(0, dtype=dtype).set_(storage, offset, sizes, strides)
    return view.clone(memory_format=torch.preserve_format)


def _by_rows(graph: GraphModule, fake_mode: Any) -> None:
    """Lay out constant right factors of products by rows: `linear` has them by columns, with which the library takes up
    to twice as long."""
    for target, position in ((torch.ops.aten.mm.default, 1), (torch.ops.aten.addmm.default, 2)):
        for node in graph.graph.find_nodes(op="call_function", target=target):
            weight = node.args[position]
            if weight.op != "get_attr" or getattr(graph, weight.target).is_contiguous():
                continue
            name = f"{weight.target}_by_rows"
            if not hasattr(graph, name):
                graph.register_buffer(name, getattr(graph, weight.target).contiguous())
            with graph.graph.inserting_before(node):
                rows = graph.graph.get_attr(name)
            rows.meta["val"] = fake_mode.from_tensor(getattr(graph, name), static_shapes=True)
            node.replace_input_with(weight, rows)
    graph.graph.eliminate_dead_code()
    graph.recompile()
