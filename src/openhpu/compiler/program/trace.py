"""From a program to a functional graph of ATen operators that ends with copies into the inputs it changes."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental import symbolic_shapes

from openhpu.compiler.errors import CannotCompile
from openhpu.compiler.program.geometry import same_strides
from openhpu.compiler.program.out_of_range import counts
from openhpu.compiler.program.program import Program
from openhpu.compiler.program.sizes import Size


def trace(program: Program, decompositions: dict[Any, Callable[..., Any]]) -> tuple[GraphModule, list[torch.Tensor]]:
    """The program's graph and the fake inputs it was traced with. After the program's results the graph returns how
    many indices were out of range of each of the nodes `program.counted`, and how many results of the nodes
    `program.overflowing` wrapped to 32 bits (`out_of_range.counts`). Raises CannotCompile
    with the operator at fault."""
    from torch._functorch import config as functorch_config
    from torch._functorch.aot_autograd import aot_export_module
    from torch._inductor.compile_fx import _unlift_graph

    counts.clear()  # it knows which node is being traced
    function = program.function(at_node=functools.partial(setattr, counts, "node"), laid_out=_laid_out)

    def forward(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        counts.clear()
        results = function(*inputs)
        return (*results, *(count for _, count in (*counts.missing, *counts.overflowing)))

    module = torch.nn.Module()
    module.forward = forward
    # Numbers are read out of tensors while tracing: they become symbols.
    fake_mode = FakeTensorMode(shape_env=symbolic_shapes.ShapeEnv())
    inputs = [_fake(fake_mode, program, number, t) for number, t in enumerate(program.example_inputs())]
    try:
        with torch.no_grad(), fake_mode, functorch_config.patch(unlift_effect_tokens=True):
            exported, signature = aot_export_module(module, inputs, trace_joint=False, decompositions=decompositions)
    except CannotCompile:
        raise
    except symbolic_shapes.GuardOnDataDependentSymNode as error:
        raise _at(program, counts.node, ValueError("decides by the value of a variable number")) from error
    except Exception as error:  # whatever an operator's own Python code raises
        raise _at(program, counts.node, error) from error
    program.counted = [node for node, _ in counts.missing]
    program.overflowing = [node for node, _ in counts.overflowing]
    counts.clear()  # of tensors, which hold what was traced
    return _unlift_graph(module, exported, signature), list(inputs)  # type: ignore[arg-type]


def _fake(mode: FakeTensorMode, program: Program, number: int, tensor: torch.Tensor) -> torch.Tensor:
    """The fake of an input, with symbols where its sizes are open."""
    slots = program.plan.inputs
    base = slots[number].base if number < len(slots) else None
    if base is None or not any(isinstance(n, Size) for n in (*base.sizes, *base.strides)):
        return mode.from_tensor(tensor, static_shapes=True)
    # Each dimension its own symbol: equal sizes are found equal while tracing, not taken for equal by chance.
    kind = symbolic_shapes.DimDynamic
    kinds = [kind.DYNAMIC if isinstance(n, Size) else kind.STATIC for n in base.sizes]
    return mode.from_tensor(tensor, symbolic_context=symbolic_shapes.StatelessSymbolicContext(dynamic_sizes=kinds))


def _laid_out(tensor: torch.Tensor, sizes: tuple[int, ...], strides: tuple[int, ...]) -> torch.Tensor:
    """A new tensor with the strides that were recorded, on which views of it rely."""
    if tuple(tensor.shape) != sizes:
        raise ValueError(f"result of size {tuple(tensor.shape)}, recorded was {sizes}")
    if same_strides(sizes, tensor.stride(), strides):
        return tensor
    return torch.empty_strided(sizes, strides, dtype=tensor.dtype).copy_(tensor)


def _at(program: Program, number: int, error: Exception) -> CannotCompile:
    """The error of a node, or (-1) of none, with its first line."""
    first = str(error).strip().partition("\n")[0]
    reason = f"{type(error).__name__}: {first}" if first else type(error).__name__
    if number < 0:
        return CannotCompile(reason)
    node, variable = program.description["nodes"][number], program.description["variable"]
    scalars = [arg[1] for arg in node["args"] if arg[0] in ("scalar", "cpu_scalar") and variable[arg[1]]]
    return CannotCompile(reason, node["op"], scalars)
