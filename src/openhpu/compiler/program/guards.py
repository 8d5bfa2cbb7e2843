"""The assumptions of tracing and Inductor about open sizes, as guards that the core can check."""

import re
from collections.abc import Sequence
from typing import Any

import sympy
import torch

from openhpu.compiler.errors import CannotCompile
from openhpu.compiler.program.program import Program
from openhpu.compiler.program.sizes import Size, Symbols, polynomial_of


def note_guards(program: Program, inputs: Sequence[torch.Tensor]) -> None:
    """Add the assumptions of tracing and Inductor about open sizes to the program's guards.

    Raises CannotCompile if they assumed a certain value, or something that no guard can express.
    """
    symbols = program.symbols
    if not symbols.hints:
        return
    open_sizes: list[tuple[Size, Any]] = [
        (size, found)
        for slot, fake in zip(program.plan.inputs, inputs, strict=False)
        for size, found in zip(slot.base.sizes, fake.shape, strict=True)
        if isinstance(size, Size)
    ]
    if not open_sizes:
        return
    sympy_names: dict[Any, Any] = {}  # our formulas for sympy's symbols
    for size, found in open_sizes:
        if not isinstance(found, torch.SymInt):
            raise CannotCompile(f"size {size.text} of an input can only be {int(found)}")
        if found.node._expr.is_Symbol:
            sympy_names.setdefault(found.node._expr, _as_sympy(size))
    shape_env = open_sizes[0][1].node.shape_env
    for size, found in open_sizes:
        now = shape_env.replace(found.node._expr).subs(sympy_names)
        if (now - _as_sympy(size)).expand() != 0:
            raise CannotCompile(f"takes the size {size.text} for {now}")
    for guard in shape_env.guards:
        _note(symbols, shape_env.replace(guard.expr).subs(sympy_names))


def _as_sympy(size: Size) -> Any:
    names = {name: sympy.Symbol(name, integer=True, positive=True) for name in size.symbols.hints}
    return sympy.sympify(size.text, locals=names)


def _note(symbols: Symbols, condition: Any) -> None:
    if condition in (True, sympy.true):
        return
    if isinstance(condition, sympy.Ne):
        # Found different in the recorded graph: holds on the same side.
        low, high = (_polynomial(symbols, side) for side in condition.args)
        if int(symbols.make(low)) > int(symbols.make(high)):
            low, high = high, low
        symbols.note_less(low, high)
        return
    if isinstance(condition, sympy.Eq) and (condition.args[0] - condition.args[1]).expand() == 0:
        return
    if isinstance(condition, (sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge)):
        above = condition.gts + int(isinstance(condition, (sympy.Le, sympy.Ge)))
        symbols.note_less(_polynomial(symbols, condition.lts), _polynomial(symbols, above))
        return
    raise CannotCompile(f"relies on {condition}")


def _polynomial(symbols: Symbols, expression: Any) -> dict[tuple[str, ...], int]:
    text = str(sympy.expand(expression)).replace(" ", "")
    text = re.sub(r"(n\d+)\*\*(\d+)", lambda power: "*".join([power[1]] * int(power[2])), text)
    if not re.fullmatch(r"-?(n?\d+[*+-])*n?\d+", text):
        raise CannotCompile(f"relies on {expression}")
    return polynomial_of(symbols.size(text))
