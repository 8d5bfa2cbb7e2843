"""The form in which a recorded graph arrives: plain Python data, with the types below.

Tensors that share a storage are views on one *slot*. A node is a call of an operator, with all arguments in the order
of its schema. Views are not nodes: an operand has its place in its slot. Nodes are in program order.
"""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NotRequired, TypeAlias, TypedDict

import torch

from openhpu.compiler.errors import CannotCompile
from openhpu.compiler.program import sections
from openhpu.compiler.program.geometry import Geometry
from openhpu.compiler.program.sizes import Symbols

# Flags of a tensor operand.
CONJUGATED = 1
NEGATED = 2
WRAPPED = 4  # counts as a Python number in promotion

# ("tensor", slot, dtype, sizes, strides, offset, flags) | ("scalar", index) | ("cpu_scalar", index, dtype, wrapped)
# | ("const", value) | ("size", formula) | ("list", [argument, ...])
Argument: TypeAlias = tuple[Any, ...]
# ("fresh", slot, dtype, sizes, strides, offset) | ("argument", k) | ("undefined",)
Output: TypeAlias = tuple[Any, ...]


class SlotDescription(TypedDict):
    """A storage. "input": it had contents before the graph; "fresh": made in it, contents undefined until written."""

    kind: str
    nbytes: int


class NodeDescription(TypedDict):
    """A call of `op` ("aten::add.Tensor", "aten::relu"), its flattened result tensors, and where the script made it.
    `widened`: its operands of the first dtype are computed with in the second, and what they become is rounded back."""

    op: str
    args: list[Argument]
    outputs: list[Output]
    site: int
    widened: NotRequired[tuple[torch.dtype, torch.dtype]]


class Description(TypedDict):
    """A graph. `live`: fresh slots needed afterwards. `scalars`: Python numbers of this run; those marked `variable`
    are inputs of a recipe, the others constants. `threads`: number of threads to compile for. `sites`: number of a
    source line to "file:line". `symbols`: sizes that are left open, with their values in this run; wherever a size,
    stride, offset or number of bytes is expected there may be a formula, such as "64*n0". `constants`: contents of
    input slots that will not change and may be compiled in. `lenient`: indices may be out of range (`out_of_range`).
    `int32`: results in int64 wrap to 32 bits (`small_integers`). `e4m3`: float8_e4m3fn is that of a Gaudi 2, for which
    there are no recipes."""

    slots: list[SlotDescription]
    nodes: list[NodeDescription]
    live: list[int]
    scalars: list[Any]
    variable: list[bool]
    threads: int
    sites: NotRequired[dict[int, str]]
    symbols: NotRequired[dict[str, dict[str, int]]]
    constants: NotRequired[dict[int, bytes | Path]]
    lenient: NotRequired[bool]
    int32: NotRequired[bool]
    e4m3: NotRequired[bool]


# c10's enumerations: the meaning of an operator's integer if its schema has ScalarType, Layout or MemoryFormat.
_DTYPES = (
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex32",
    "complex64",
    "complex128",
    "bool",
    "qint8",
    "quint8",
    "qint32",
    "bfloat16",
    "quint4x2",
    "quint2x4",
    "bits1x8",
    "bits2x4",
    "bits4x2",
    "bits8",
    "bits16",
    "float8_e5m2",
    "float8_e4m3fn",
    "float8_e5m2fnuz",
    "float8_e4m3fnuz",
    "uint16",
    "uint32",
    "uint64",
)
_LAYOUTS = ("strided", "sparse_coo", "sparse_csr", "_mkldnn", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged")
_MEMORY_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
_ENUMERATIONS = {"ScalarType": _DTYPES, "Layout": _LAYOUTS, "MemoryFormat": _MEMORY_FORMATS}


def dtype_of(number: int) -> torch.dtype:
    """The dtype with this number of c10's enumeration."""
    return getattr(torch, _DTYPES[number])  # type: ignore[no-any-return]


def constant(value: Any, schema_type: Any) -> Any:
    """A constant as the operator takes it: enumerators by their schema's type, the graph's device as the CPU."""
    if isinstance(value, torch.device):
        return torch.device("cpu")
    if isinstance(value, int) and not isinstance(value, bool):
        name = str(schema_type).removeprefix("Optional[").removesuffix("]")
        names = _ENUMERATIONS.get(name)
        return getattr(torch, names[value]) if names else value
    if isinstance(value, (list, tuple)):
        return [constant(item, None) for item in value]
    return value


def operator(op: str) -> torch._ops.OpOverload:
    """The operator named "namespace::name.overload". Raises CannotCompile if this build of PyTorch has none."""
    namespace, _, name = op.partition("::")
    base, _, overload = name.partition(".")
    try:
        found: torch._ops.OpOverload = getattr(getattr(getattr(torch.ops, namespace), base), overload or "default")
    except AttributeError as error:
        raise CannotCompile("unknown operator", op) from error
    return found


def geometry(entry: tuple[Any, ...]) -> Geometry:
    """Where a tensor operand or fresh output lies in its slot."""
    dtype, sizes, strides, offset = entry[2:6]
    return Geometry(dtype, tuple(sizes), tuple(strides), offset)


def with_sizes(description: Description, symbols: Symbols) -> Description:
    """The same graph with a Size for each formula."""

    def entry(value: tuple[Any, ...]) -> tuple[Any, ...]:
        match value[0]:
            case "tensor" | "fresh":
                sizes, strides = (tuple(map(symbols.size, value[i])) for i in (3, 4))
                return (*value[:3], sizes, strides, symbols.size(value[5]), *value[6:])
            case "size":
                return ("const", symbols.size(value[1]))
            case "list":
                return ("list", [entry(item) for item in value[1]])
        return value

    nodes: list[NodeDescription] = [
        {**node, "args": [entry(a) for a in node["args"]], "outputs": [entry(o) for o in node["outputs"]]}
        for node in description["nodes"]
    ]
    slots: list[SlotDescription] = [{**slot, "nbytes": symbols.size(slot["nbytes"])} for slot in description["slots"]]
    return {**description, "slots": slots, "nodes": nodes}


def sizes(description: Description) -> Iterator[int]:
    """All sizes, strides and offsets of operands and results, integer arguments and bytes of storages."""

    def within(value: Any) -> Iterator[int]:
        if isinstance(value, (tuple, list)):
            for item in value:
                yield from within(item)
        elif isinstance(value, int):
            yield value

    for slot in description["slots"]:
        yield slot["nbytes"]
    for node in description["nodes"]:
        yield from within(node["args"])
        yield from within(node["outputs"])


def flattened(args: list[Argument]) -> Iterator[tuple[int, Argument]]:
    """Arguments with the members of lists in place of the lists; each with its position in the schema."""
    for position, arg in enumerate(args):
        if arg[0] == "list":
            yield from ((position, member) for member in arg[1])
        else:
            yield position, arg


def tensors(node: NodeDescription) -> Iterator[tuple[int, Argument]]:
    """The tensor operands in order of appearance, each with its position in the schema."""
    return ((position, arg) for position, arg in flattened(node["args"]) if arg[0] == "tensor")


def with_constants(description: Description, indices: Iterable[int]) -> Description:
    """The same graph with some of its numbers as constants."""
    constants = set(indices)
    variable = [bool(v) and index not in constants for index, v in enumerate(description["variable"])]
    return {**description, "variable": variable}


def key(description: Description, *build: str) -> str:
    """A content address: the graph without its variable numbers and its sites, and whatever else `build` names.

    64 hexadecimal digits.
    """
    scalars, variable = description["scalars"], description["variable"]
    parts = (
        [(slot["kind"], slot["nbytes"]) for slot in description["slots"]],
        [(node["op"], node["args"], node["outputs"], node.get("widened")) for node in description["nodes"]],
        description["live"],
        # The type of a variable number decides about promotion.
        [type(s).__name__ if v else s for s, v in zip(scalars, variable, strict=True)],
        [bool(v) for v in variable],
        description["threads"],
        (description.get("lenient", False), description.get("int32", False), description.get("e4m3", False)),
        sorted(description.get("symbols", ())),
        sorted((slot, sections.digest(content)) for slot, content in description.get("constants", {}).items()),
        build,
    )
    return hashlib.sha256(repr(_plain(parts)).encode()).hexdigest()  # repr tells 1 from True and from 1.0


def _plain(value: Any) -> Any:
    """The same content in tuples only, whatever sequences it came in; a device, whichever it is, becomes the CPU."""
    if isinstance(value, (tuple, list)):  # torch.Size is a tuple
        return tuple(map(_plain, value))
    return torch.device("cpu") if isinstance(value, torch.device) else value
