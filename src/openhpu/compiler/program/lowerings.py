"""Operators that are traced as a Python function of simpler ones. All others are traced as they are."""

import functools
from collections.abc import Callable
from typing import Any

from openhpu.compiler.program import (
    description as graph,
    fused_steps,
    out_of_range,
    seeded,
    small_integers,
    user_kernels,
)

_FUNCTIONS: dict[str, Callable[..., Any]] = {**fused_steps.FUNCTIONS, **seeded.FUNCTIONS, **user_kernels.FUNCTIONS}


def lowering(op: str, description: graph.Description) -> Callable[..., Any] | None:
    """The function for an operator ("aten::_fused_adamw_.tensor_lr") of a graph, which takes the same arguments and
    returns as many results; None if it is traced as it is."""
    name = op.partition(".")[0]
    found = _FUNCTIONS.get(op) or _FUNCTIONS.get(name)
    if found is None and description.get("lenient"):
        found = out_of_range.FUNCTIONS.get(name)
    if not description.get("int32"):
        return found
    overload = graph.operator(op)
    return functools.partial(small_integers.wrapped, overload, found or overload)
