"""The operator `openhpu_compiler::stored`: a copy, and for Inductor the order to compute its operand only once
(`inductor.own_operators`).

Inductor computes a small tensor anew inside every loop that reads it. That is right for a sum of two numbers and wrong
for a power: the optimizers' bias corrections would be computed for each element of each parameter.
"""

import torch

_library = torch.library.Library("openhpu_compiler", "DEF")
_library.define("stored(Tensor x) -> Tensor")
_library.impl("stored", torch.clone, "CompositeExplicitAutograd")


def stored(x: torch.Tensor) -> torch.Tensor:
    """A copy of `x` that a recipe keeps in memory."""
    return torch.ops.openhpu_compiler.stored.default(x)  # type: ignore[no-any-return]
