"""From a program to a functional graph of ATen operators that ends with copies into the inputs it changes."""

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    GuardOnDataDependentSymNode,
    ShapeEnv,
    StatelessSymbolicContext,
)

from openhpu.compiler.errors import CannotCompile
from openhpu.compiler.program import out_of_range
from openhpu.compiler.program.geometry import same_strides
from openhpu.compiler.program.program import Program
from openhpu.compiler.program.sizes import Size


class _Progress:
    """Which node is being traced: an error names it."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.counts = out_of_range.Counts()

    def at_node(self, number: int) -> None:
        self.counts.node = number

    def error(self, error: Exception) -> CannotCompile:
        if self.counts.node < 0:
            return CannotCompile(_first_line(error))
        node = self._program.description["nodes"][self.counts.node]
        variable = self._program.description["variable"]
        scalars = [arg[1] for arg in node["args"] if arg[0] in ("scalar", "cpu_scalar") and variable[arg[1]]]
        return CannotCompile(_first_line(error), node["op"], scalars)


def trace(program: Program, decompositions: dict[Any, Callable[..., Any]]) -> tuple[GraphModule, list[torch.Tensor]]:
    """The program's graph and the fake inputs it was traced with. After the program's results the graph returns how
    many indices were out of range of each of the nodes `program.counted`, and how many results of the nodes
    `program.overflowing` wrapped to 32 bits (`out_of_range.Counts`). Raises CannotCompile
    with the operator at fault."""
    from torch._functorch import config as functorch_config
    from torch._functorch.aot_autograd import aot_export_module
    from torch._inductor.compile_fx import _unlift_graph

    progress = _Progress(program)
    function, counts = program.function(at_node=progress.at_node, laid_out=_laid_out), progress.counts

    def forward(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        counts.clear()
        results = function(*inputs)
        return (*results, *counts.tensors, *counts.overflows)

    module = torch.nn.Module()
    module.forward = forward
    # Numbers are read out of tensors while tracing: they become symbols.
    fake_mode = FakeTensorMode(shape_env=ShapeEnv())
    inputs = [_fake(fake_mode, program, number, t) for number, t in enumerate(program.example_inputs())]
    try:
        with (
            torch.no_grad(),
            fake_mode,
            functorch_config.patch(unlift_effect_tokens=True),
            out_of_range.counted(counts),
        ):
            exported, signature = aot_export_module(module, inputs, trace_joint=False, decompositions=decompositions)
    except CannotCompile:
        raise
    except GuardOnDataDependentSymNode as error:
        raise progress.error(ValueError("decides by the value of a variable number")) from error
    except Exception as error:  # whatever an operator's own Python code raises
        raise progress.error(error) from error
    assert isinstance(exported, GraphModule)
    program.counted, program.overflowing = counts.nodes, counts.overflowing
    return _unlift_graph(module, exported, signature), list(inputs)  # type: ignore[arg-type]


def _fake(mode: FakeTensorMode, program: Program, number: int, tensor: torch.Tensor) -> torch.Tensor:
    """The fake of an input, with symbols where its sizes are open."""
    slots = program.plan.inputs
    base = slots[number].base if number < len(slots) else None
    if base is None or not any(isinstance(n, Size) for n in (*base.sizes, *base.strides)):
        return mode.from_tensor(tensor, static_shapes=True)
    # Each dimension its own symbol: equal sizes are found equal while tracing, not taken for equal by chance.
    kinds = [DimDynamic.DYNAMIC if isinstance(n, Size) else DimDynamic.STATIC for n in base.sizes]
    return mode.from_tensor(tensor, symbolic_context=StatelessSymbolicContext(dynamic_sizes=kinds))


def _laid_out(tensor: torch.Tensor, sizes: tuple[int, ...], strides: tuple[int, ...]) -> torch.Tensor:
    """A new tensor with the strides that were recorded, on which views of it rely."""
    if tuple(tensor.shape) != sizes:
        raise ValueError(f"result of size {tuple(tensor.shape)}, recorded was {sizes}")
    if same_strides(sizes, tensor.stride(), strides):
        return tensor
    return torch.empty_strided(sizes, strides, dtype=tensor.dtype).copy_(tensor)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
