"""A recorded graph as a Python program: `recipe(slot tensors..., numbers...)`, which runs on CPU tensors.

A person can read this text, and it runs anywhere PyTorch runs. With hooks it is also the program that Inductor gets.
"""

import builtins
import keyword
import linecache
from collections.abc import Callable
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

from openhpu.compiler.errors import CannotCompile
from openhpu.compiler.program import description as graph, float8, seeded, views
from openhpu.compiler.program.description import Argument, Description, NodeDescription
from openhpu.compiler.program.geometry import Geometry, contiguous_strides, same_strides
from openhpu.compiler.program.lowerings import lowering
from openhpu.compiler.program.plan import Plan, Slot, make_plan, written_arguments
from openhpu.compiler.program.sizes import Size, Symbols, polynomial_of

_RESERVED = {*keyword.kwlist, *dir(builtins), "torch", "recipe"}
# Operators whose kernels do not round a number to the 16 bits of a tensor beside it.
_WIDE_NUMBERS = ("mul", "mul_", "div", "div_")
# Operators that PyTorch lets take a number for a tensor when they are called by their schema.
_TAKE_NUMBERS = {"add", "add_", "sub", "sub_", "mul", "mul_", "div", "div_", "floor_divide", "floor_divide_"}
_WIDTH = 160  # beyond it, a call gets a line for each argument

# Calls that the traced form makes and the readable form does not.
AT_NODE = "_at_node"
LAID_OUT = "_laid_out"
LOWERED = "_lowered"


class Program:
    """The program of a graph. `text` is for people; `traced_text` also calls the hooks that `function` takes.

    Inputs are `plan.inputs` in order, each a tensor with the geometry of its slot, then `plan.scalars`, each a 0-dim
    tensor of `scalar_dtype`. The result is a tuple of the tensors of `plan.outputs`. Inputs are changed in place as
    the script did it. Raises CannotCompile.
    """

    def __init__(self, description: Description) -> None:
        self.symbols = Symbols({name: symbol["hint"] for name, symbol in description.get("symbols", {}).items()})
        if self.symbols.hints:
            description = graph.with_sizes(description, self.symbols)
        self.description = description
        self.plan: Plan = make_plan(description)
        self._definitions = self._define_symbols()
        self.counted: list[int] = []  # nodes whose indices are counted, once it is traced
        self.overflowing: list[int] = []  # nodes whose overflows are counted
        self.text = _Writer(description, self.plan, self._definitions, hooks=False).text()

    def _define_symbols(self) -> list[str]:
        """A line for each symbol: an input has that size. Else, as in a part of a graph that has flattened tensors
        alone, an input has a multiple of it. Of symbols that occur as a product alone, one is the product."""
        dims: dict[int, str] = {
            size: f"x{number}.shape[{dim}]"
            for number, slot in reversed(list(enumerate(self.plan.inputs)))
            for dim, size in reversed(list(enumerate(slot.base.sizes)))
            if isinstance(size, Size)
        }
        together = self._always_together()
        lines = {name: f"{name} = {dims[size]}" for name, size in self._bare() if size in dims}
        for size, text in dims.items():
            factor, names = (isinstance(size, Size) and size.monomial) or (0, ())
            new = [name for name in names if name not in lines]
            if not factor or not new or (len(new) > 1 and frozenset(new) not in together):
                continue
            first, *others = new
            lines |= {name: f"{name} = 1" for name in others}
            known = [name for name in names if name not in new]
            lines[first] = f"{first} = " + " // ".join([text, *([str(factor)] if factor > 1 else []), *known])
        for name in self.symbols.hints:
            if name not in lines:
                raise CannotCompile(f"no input has the size {name}")
        return list(lines.values())

    def _bare(self) -> list[tuple[str, int]]:
        return [(name, self.symbols.size(name)) for name in self.symbols.hints]

    def _always_together(self) -> set[frozenset[str]]:
        """Sets of symbols that occur in each product of symbols together and once, or not at all."""
        products = {names for size in graph.sizes(self.description) for names in polynomial_of(size) if names}
        alike: dict[frozenset[tuple[str, ...]], set[str]] = {}
        for name in self.symbols.hints:
            where = frozenset(names for names in products if name in names)
            if all(names.count(name) == 1 for names in where):
                alike.setdefault(where, set()).add(name)
        return {frozenset(names) for names in alike.values()}

    def scalar_dtype(self, index: int) -> torch.dtype:
        """The dtype in which a variable number comes in: float64 or int64."""
        return torch.float64 if isinstance(self.description["scalars"][index], float) else torch.int64

    def function(
        self, at_node: Callable[[int], None] | None = None, laid_out: Callable[..., torch.Tensor] | None = None
    ) -> Callable[..., tuple[torch.Tensor, ...]]:
        """`recipe` as a callable. `at_node(number)` is called before each node, `laid_out(tensor, sizes, strides)`
        with each new tensor; its result replaces the tensor."""
        hooked = at_node is not None or laid_out is not None
        text = _Writer(self.description, self.plan, self._definitions, hooks=True).text() if hooked else self.text
        name = f"<recipe {id(self):#x}{' traced' * hooked}>"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)  # for tracebacks
        names: dict[str, Any] = {
            AT_NODE: at_node or (lambda number: None),
            LAID_OUT: laid_out or (lambda tensor, sizes, strides: tensor),
            LOWERED: lambda op: lowering(op, self.description),
        }
        exec(compile(text, name, "exec"), names)
        return names["recipe"]  # type: ignore[no-any-return]

    def example_inputs(self) -> list[torch.Tensor]:
        """Inputs of the right geometry with this run's numbers and arbitrary contents."""
        inputs = [empty(slot.base) for slot in self.plan.inputs]
        scalars = self.description["scalars"]
        return inputs + [torch.tensor(scalars[i], dtype=self.scalar_dtype(i)) for i in self.plan.scalars]


def empty(geometry: Geometry) -> torch.Tensor:
    """An uninitialised CPU tensor of that geometry, at offset 0."""
    return torch.empty_strided(geometry.sizes, geometry.strides, dtype=geometry.dtype)


class _Writer:
    def __init__(self, description: Description, plan: Plan, definitions: list[str], hooks: bool) -> None:
        self._description = description
        self._plan = plan
        self._hooks = hooks
        self._definitions = definitions
        self._names = {*_RESERVED, *description.get("symbols", ())}
        self._counts: dict[str, int] = {}  # by wanted name: of the last one
        self._of_slot: dict[int, str] = {}
        # Number of the last node that touches a slot; live slots are never done.
        nodes = description["nodes"]
        self._last_use = {arg[1]: number for number, node in enumerate(nodes) for _, arg in graph.tensors(node)}
        self._last_use |= {slot.index: len(nodes) for slot in plan.outputs}
        self._lines: list[str] = []
        self._wide: _Widened

    def text(self) -> str:
        inputs = self._plan.inputs
        for number, slot in enumerate(inputs):
            self._of_slot[slot.index] = self._name(f"x{number}")
        scalars = [f"s{index}" for index in self._plan.scalars]
        self._names.update(scalars)
        parameters = [self._of_slot[slot.index] for slot in inputs] + scalars
        for number, node in enumerate(self._description["nodes"]):
            self._write_node(number, node)
        for slot in self._plan.outputs:
            self._allocate(slot)
        outputs = ", ".join(self._of_slot[slot.index] for slot in self._plan.outputs)
        comma = "," * (len(self._plan.outputs) == 1)
        head = ["import torch", "", "", f"def recipe({', '.join(parameters)}):"]
        for slot in inputs:
            note = ", written" * slot.mutated
            head.append(f"    # {self._of_slot[slot.index]}: {_shape_text(slot.base)}{note}")
        for index in self._plan.scalars:
            head.append(f"    # s{index}: a number, 0-dim ({self._description['scalars'][index]!r})")
        lines = [*self._definitions, *self._lines]
        return "\n".join([*head, *(f"    {line}" for line in lines), f"    return ({outputs}{comma})", ""])

    def _name(self, wanted: str) -> str:
        name = wanted
        count = self._counts.get(wanted, 0)
        while name in self._names:
            count += 1
            name = f"{wanted}_{count}"
        self._counts[wanted] = count
        self._names.add(name)
        return name

    def _allocate(self, slot: Slot) -> None:
        """A fresh slot that is used before an operator's result becomes it."""
        if slot.index in self._of_slot:
            return
        base = slot.base
        name = self._of_slot[slot.index] = self._name("empty")
        how = f"empty({base.sizes}"
        if not same_strides(base.sizes, base.strides, contiguous_strides(base.sizes)):
            how = f"empty_strided({base.sizes}, {base.strides}"
        self._lines.append(f"{name} = torch.{how}, dtype={base.dtype})")

    def _write_node(self, number: int, node: NodeDescription) -> None:
        overload = graph.operator(node["op"])
        if self._hooks:
            self._lines.append(f"{AT_NODE}({number})")
        for _, arg in graph.tensors(node):
            if self._description.get("e4m3") and arg[2] is torch.float8_e4m3fn:
                raise CannotCompile("float8_e4m3fn as on a Gaudi 2 has no recipe", node["op"])
            self._allocate(self._plan.slots[arg[1]])
        self._wide = _Widened(node, self._name)
        targets, after, notes = self._targets(number, node, overload)
        args = self._arguments(node, overload)
        self._lines += self._wide.before
        after = self._wide.after + after
        name = f"torch.ops.{overload.namespace}.{overload._opname}.{overload._overloadname}"
        if keyword.iskeyword(overload._overloadname):  # random_.from
            name = f'getattr(torch.ops.{overload.namespace}.{overload._opname}, "{overload._overloadname}")'
        if self._hooks and lowering(node["op"], self._description):
            name = f'{LOWERED}("{node["op"]}")'
        line = f"{targets} = {name}(" if targets else f"{name}("
        site = self._description.get("sites", {}).get(node["site"], "")
        note = "  ".join(filter(None, (", ".join(notes), site)))
        comment = f"  # {note}" if note else ""
        if len(line) + sum(len(arg) + 2 for arg in args) > _WIDTH:
            self._lines += [line, *(f"    {arg}," for arg in args), f"){comment}"]
        else:
            self._lines.append(f"{line}{', '.join(args)}){comment}")
        self._lines += after

    def _targets(
        self, number: int, node: NodeDescription, overload: torch._ops.OpOverload
    ) -> tuple[str, list[str], list[str]]:
        """Left side of the assignment, lines that follow it, and notes on the results."""
        names: list[str] = []
        after: list[str] = []
        notes: list[str] = []
        for position, out in enumerate(node["outputs"]):
            slot = self._plan.slots[out[1]] if out[0] == "fresh" else None
            if slot is None or self._last_use.get(slot.index, -1) <= number:
                names.append("_")
                continue
            place = graph.geometry(out)
            notes.append(_shape_text(place))
            name = self._name(overload._opname.strip("_"))
            names.append(name)
            if self._wide.dtype(place.dtype) is not place.dtype:
                after.append(f"{name} = {name}.to({place.dtype})")
            if self._hooks:
                after.append(f"{name} = {LAID_OUT}({name}, {place.sizes}, {place.strides})")
            if slot.producer == (number, position):
                self._of_slot[slot.index] = name
            else:
                self._allocate(slot)
                after.append(f"{self._view(slot, place, node)}.copy_({name})")
        if all(name == "_" for name in names):
            return "", after, notes
        returns = overload._schema.returns
        if any("[]" in str(r.type) or "List" in str(r.type) for r in returns):
            if len(returns) > 1:
                raise CannotCompile("returns lists among other results", node["op"])
            return f"({', '.join(names)},)" if len(names) == 1 else ", ".join(names), after, notes
        return ", ".join(names), after, notes

    def _view(self, slot: Slot, place: Geometry, node: NodeDescription) -> str:
        try:
            return views.text(self._of_slot[slot.index], views.view_steps(slot.base, place))
        except ValueError as error:
            raise CannotCompile(str(error), node["op"]) from error

    def _arguments(self, node: NodeDescription, overload: torch._ops.OpOverload) -> list[str]:
        written = written_arguments(node)
        schema = overload._schema.arguments
        if len(schema) != len(node["args"]):
            raise CannotCompile(f"{len(node['args'])} arguments where it takes {len(schema)}", node["op"])
        texts: list[str] = []
        positional = True
        for position, (arg, formal) in enumerate(zip(node["args"], schema, strict=True)):
            text = self._argument(arg, formal, node, position in written)
            if formal.has_default_value() and self._is_default(arg, formal):
                positional = False
                continue
            positional &= not formal.kwarg_only
            texts.append(text if positional else f"{formal.name}={text}")
        return texts

    def _is_default(self, arg: Argument, formal: Any) -> bool:
        if arg[0] == "const":
            value = graph.constant(arg[1], formal.real_type)
        elif arg[0] == "scalar" and not self._description["variable"][arg[1]]:
            value = self._description["scalars"][arg[1]]
        else:
            return False
        default = formal.default_value
        if default is None or value is None:
            return default is value
        return bool(value == default) and isinstance(value, bool) == isinstance(default, bool)

    def _argument(self, arg: Argument, formal: Any, node: NodeDescription, written: bool) -> str:
        match arg[0]:
            case "tensor":
                return self._wide.operand(arg, self._tensor(arg, node, written), written)
            case "list":
                return f"[{', '.join(self._argument(item, formal, node, written) for item in arg[1])}]"
            case "const":
                return _source(self._wide.dtype(graph.constant(arg[1], formal.real_type)))
            case "scalar":
                if self._description["variable"][arg[1]]:
                    # Its function takes the 0-dim tensor that brings the number, instead of a symbol.
                    as_tensor = self._hooks and node["op"] in seeded.FUNCTIONS
                    return f"s{arg[1]}" if as_tensor else f"s{arg[1]}.item()"
                return _source(self._description["scalars"][arg[1]])
            case "cpu_scalar":
                return self._cpu_scalar(arg, node)
        raise CannotCompile(f"unknown kind of argument {arg[0]!r}", node["op"])

    def _tensor(self, arg: Argument, node: NodeDescription, written: bool) -> str:
        text = self._view(self._plan.slots[arg[1]], graph.geometry(arg), node)
        flags = arg[6]
        if flags and written:
            raise CannotCompile("writes to a lazily conjugated or negated tensor", node["op"])
        if flags & graph.WRAPPED:
            text = f"{text}.to({self._promoted(node)})"
        if flags & graph.CONJUGATED:
            text = f"torch.conj_physical({text})"
        return f"torch.neg({text})" if flags & graph.NEGATED else text

    def _cpu_scalar(self, arg: Argument, node: NodeDescription) -> str:
        index, dtype, wrapped = arg[1:4]
        value = self._description["scalars"][index]
        if not self._description["variable"][index]:
            if wrapped and graph.operator(node["op"])._opname not in _TAKE_NUMBERS:
                return f"torch.scalar_tensor({_source(value)}, dtype={self._promoted(node)})"
            return _source(value) if wrapped else f"torch.scalar_tensor({_source(value)}, dtype={dtype})"
        to = self._promoted(node) if wrapped else dtype
        if wrapped and to in (torch.bfloat16, torch.float16) and graph.operator(node["op"])._opname in _WIDE_NUMBERS:
            to = torch.float32
        return f"s{index}.to({to})"

    def _promoted(self, node: NodeDescription) -> torch.dtype:
        """The dtype in which the operator computes with a Python number: that of all operands together."""
        operands: list[Any] = []
        for _, arg in graph.flattened(node["args"]):
            if arg[0] == "tensor" and arg[6] & graph.WRAPPED:
                operands.append(_number_of(arg[2]))
            elif arg[0] == "tensor":
                operands.append(torch.empty((0,) if arg[3] else (), dtype=self._wide.dtype(arg[2])))
            elif arg[0] == "cpu_scalar":
                operands.append(self._description["scalars"][arg[1]])
        return elementwise_dtypes(*operands, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.NO_OPMATH)[1]


class _Widened:
    """A call's operands in a wider dtype, where it is computed in one. `before` and `after`: lines around the call."""

    def __init__(self, node: NodeDescription, name: Callable[[str], str]) -> None:
        self._to: dict[Any, torch.dtype] = {} if node["op"] in float8.TAKE_FLOAT8 else dict(float8.WIDER)
        self._to.update([node["widened"]] if "widened" in node else [])
        self._name = name
        self._written: dict[str, str] = {}
        self.before: list[str] = []
        self.after: list[str] = []

    def dtype(self, value: Any) -> Any:
        """A dtype, or any other constant, as the call takes it."""
        return self._to.get(value, value) if isinstance(value, torch.dtype) else value

    def operand(self, arg: Argument, text: str, written: bool) -> str:
        """A tensor as the call takes it. One that is written is a variable, whose contents are copied back."""
        to = self.dtype(arg[2])
        if to is arg[2] or arg[6] & graph.WRAPPED:
            return text
        if text in self._written:
            return self._written[text]
        if not written:
            return f"{text}.to({to})"
        name = self._written[text] = self._name("wide")
        self.before.append(f"{name} = {text}.to({to})")
        self.after.append(f"{text}.copy_({name})")
        return name


def _shape_text(place: Geometry) -> str:
    text = f"{str(place.dtype).removeprefix('torch.')}{list(place.sizes)}"
    return text if place.is_contiguous else f"{text} strides {list(place.strides)}"


def _number_of(dtype: torch.dtype) -> complex:
    """A Python number of this kind."""
    if dtype.is_complex:
        return 1j
    return 1.0 if dtype.is_floating_point else 1


def _source(value: Any) -> str:
    if isinstance(value, torch.device):
        return f'torch.device("{value}")'
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return f'float("{value}")'
    if isinstance(value, complex):
        return f"complex({_source(value.real)}, {_source(value.imag)})"
    if isinstance(value, list):
        return f"[{', '.join(map(_source, value))}]"
    return repr(value)
