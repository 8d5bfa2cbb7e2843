"""Kernels that a short TOML file describes, in the place of glue code.

[[kernel]]
guid = "my_relu_f32"
source = "relu.c"                      # or the name of a kernel of the command
inputs = ["f32"]                       # types; the number of tensors
outputs = ["f32"]
space = ["out0[0] / 64", "out0[1]"]    # sizes of the index space; `/` rounds up
scalars = 1                            # words of 32 bits of the node's parameters, for main's numbers
complete = true                        # optional: members write every element of the outputs; checks see to it
cleared = ["out1"]                     # optional: outputs that are zero before the kernel runs
access = { out0 = [["64 * i0", "64 * i0 + 63"], "i1"] }   # optional: for each dimension the first and last coordinate
                                       # that a member uses, or both in one, or "all"; checks compare stores with it
"""

import ast
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from openhpu_tpc.errors import BuildError
from openhpu_tpc.types import LANES

_KEYS = {"guid", "source", "inputs", "outputs", "space", "scalars", "access", "complete", "cleared"}
_MOST_DIMENSIONS = 5


class Described(NamedTuple):
    """A kernel of the file."""

    guid: str
    source: str
    inputs: list[str]
    outputs: list[str]
    space: list[str]
    scalars: int
    complete: bool = False
    cleared: tuple[int, ...] = ()  # numbers of outputs
    access: tuple[tuple[str, tuple[str, ...]], ...] = ()  # a tensor's name, and C++ that sets each of its dimensions


def read(path: Path) -> list[Described]:
    """The kernels of a file. Raises BuildError, which names the file and the key."""
    try:
        document = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BuildError(f"{path}: {error}") from None
    kernels = document.get("kernel")
    if not isinstance(kernels, list) or not kernels:
        raise BuildError(f"{path}: it has no [[kernel]]")
    return [_described(path, kernel) for kernel in kernels]


def _described(path: Path, kernel: dict[str, Any]) -> Described:
    _check_keys(path, kernel)
    types = [*kernel.get("inputs", []), *kernel["outputs"]]
    for each in types:
        if each not in LANES:
            raise BuildError(f"{path}: {kernel['guid']}: {each} is no type; types are {', '.join(LANES)}")
    if not 1 <= len(kernel["space"]) <= _MOST_DIMENSIONS:
        raise BuildError(f"{path}: {kernel['guid']}: space has {len(kernel['space'])} dimensions; 1 to 5 are possible")
    space = [_expression(path, kernel, str(each)) for each in kernel["space"]]
    scalars = kernel.get("scalars", 0)
    if not isinstance(scalars, int) or not 0 <= scalars <= 64:
        raise BuildError(f"{path}: {kernel['guid']}: scalars is a number from 0 to 64")
    complete = kernel.get("complete", False)
    if not isinstance(complete, bool):
        raise BuildError(f"{path}: {kernel['guid']}: complete is true or false")
    outputs = {f"out{index}": index for index in range(len(kernel["outputs"]))}
    cleared = kernel.get("cleared", [])
    if not isinstance(cleared, list) or not set(cleared) <= set(outputs):
        raise BuildError(f"{path}: {kernel['guid']}: cleared lists outputs of {', '.join(outputs)}")
    return Described(
        kernel["guid"],
        kernel["source"],
        kernel.get("inputs", []),
        kernel["outputs"],
        space,
        scalars,
        complete,
        tuple(outputs[name] for name in cleared),
        _access(path, kernel),
    )


def _check_keys(path: Path, kernel: dict[str, Any]) -> None:
    unknown = set(kernel) - _KEYS
    if unknown:
        raise BuildError(f"{path}: {sorted(unknown)[0]} is no key of a kernel; it has {', '.join(sorted(_KEYS))}")
    for key in ("guid", "source", "outputs", "space"):
        if key not in kernel:
            raise BuildError(f"{path}: a kernel needs the key {key}")


def _access(path: Path, kernel: dict[str, Any]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    given = kernel.get("access", {})
    if not isinstance(given, dict):
        raise BuildError(f"{path}: {kernel['guid']}: access is a table of tensors, such as {{ out0 = ['i0'] }}")
    counts = {"in": len(kernel.get("inputs", [])), "out": len(kernel["outputs"])}
    found = []
    for name, dimensions in given.items():
        kind, number = name.rstrip("0123456789"), name[len(name.rstrip("0123456789")) :]
        if kind not in counts or not number or int(number) >= counts[kind]:
            raise BuildError(f"{path}: {kernel['guid']}: access names {name}, which the kernel does not have")
        if not isinstance(dimensions, list) or not 1 <= len(dimensions) <= _MOST_DIMENSIONS:
            raise BuildError(f"{path}: {kernel['guid']}: access of {name} is a list of 1 to 5 dimensions")
        pattern = f"q->{kind}putTensorAccessPattern[{number}].mapping"
        rows = [_mapping(path, kernel, each, f"{pattern}[{place}]") for place, each in enumerate(dimensions)]
        found.append((name, tuple(rows)))
    return tuple(found)


def _mapping(path: Path, kernel: dict[str, Any], given: Any, pattern: str) -> str:
    """C++ that sets one dimension of a pattern."""
    if given == "all":
        return f"{pattern}.allRequired = true;"
    ends = given if isinstance(given, list) else [given, given]
    try:
        (space, factor, first), (other, last_factor, last) = (_linear(str(each)) for each in ends)
        if (space, factor) != (other, last_factor) and factor and last_factor:
            raise ValueError("both ends move by the same step of one dimension of the index space")
        used = space if factor else other
        if used >= len(kernel["space"]):
            raise ValueError(f"the index space has no dimension {used}")
    except (SyntaxError, ValueError) as error:
        raise BuildError(
            f"{path}: {kernel['guid']}: {given!r} is no range of coordinates: {error}. Ranges are 'all', 'i1', or "
            f"['64 * i0', '64 * i0 + 63'] with i0 to i4 for the member"
        ) from None
    values = f"{factor or last_factor}, {first}, {last}"
    return f"{pattern} = {{{used}, {values}, false}};"


def _linear(text: str) -> tuple[int, float, float]:
    """The dimension of the index space, the factor and the rest of a linear expression of one member's coordinate."""

    def parts(node: ast.expr) -> tuple[int, float, float]:
        match node:
            case ast.Constant(value=int(number) | float(number)):
                return 0, 0, number
            case ast.Name(id=name) if len(name) == 2 and name[0] == "i" and name[1] in "01234":
                return int(name[1]), 1, 0
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                dimension, factor, rest = parts(operand)
                return dimension, -factor, -rest
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as operation, right=right):
                first, second = parts(left), parts(right)
                if first[1] and second[1] and first[0] != second[0]:
                    raise ValueError("it has two coordinates")
                sign = 1 if isinstance(operation, ast.Add) else -1
                dimension = first[0] if first[1] else second[0]
                return dimension, first[1] + sign * second[1], first[2] + sign * second[2]
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                first, second = parts(left), parts(right)
                if first[1] and second[1]:
                    raise ValueError("it is not linear")
                scaled, by = (first, second[2]) if first[1] else (second, first[2])
                return scaled[0], scaled[1] * by, scaled[2] * by
        raise ValueError(ast.unparse(node))

    return parts(ast.parse(text, mode="eval").body)


def _expression(path: Path, kernel: dict[str, Any], text: str) -> str:
    """C++ for a size of the index space."""

    def written(node: ast.expr) -> str:
        match node:
            case ast.Constant(value=int(number)):
                return str(number)
            case ast.BinOp(left=left, op=ast.Div() | ast.FloorDiv(), right=right):
                return f"rounded_up({written(left)}, {written(right)})"
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return f"({written(left)} + {written(right)})"
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                return f"({written(left)} - {written(right)})"
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return f"({written(left)} * {written(right)})"
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=int(dimension))):
                return _size(name, dimension)
        raise ValueError(ast.unparse(node))

    def _size(name: str, dimension: int) -> str:
        kind, digits = name.rstrip("0123456789"), name[len(name.rstrip("0123456789")) :]
        tensors = {"in": kernel.get("inputs", []), "out": kernel["outputs"]}
        if kind not in tensors or not digits or int(digits) >= len(tensors[kind]) or not 0 <= dimension < 5:
            raise ValueError(f"{name}[{dimension}]")
        return f"size(p->{kind}putTensors[{digits}].geometry, {dimension})"

    try:
        return written(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError) as error:
        raise BuildError(
            f"{path}: {kernel['guid']}: {text!r} is no size: {error}. Sizes have numbers, + - * /, in0[0], out0[0]"
        ) from None


def glue_of(kernels: list[Described]) -> str:
    """Glue code in C++ for the kernels."""
    names = sorted({_symbol(kernel.source) for kernel in kernels})
    externs = "\n".join(f'extern "C" unsigned char _binary_{name}_o_start, _binary_{name}_o_end;' for name in names)
    guids = ", ".join(f'"{kernel.guid}"' for kernel in kernels)
    return _GLUE.format(externs=externs, guids=guids, count=len(kernels), cases="".join(map(_case, kernels)))


def _symbol(source: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in Path(source).stem)


def _case(kernel: Described) -> str:
    lines = [f'  if (strcmp(p->guid.name, "{kernel.guid}") == 0) {{']
    for kind, types, code in (("in", kernel.inputs, "INPUT"), ("out", kernel.outputs, "OUTPUT")):
        lines.append(f"    if (p->{kind}putTensorNr != {len(types)}) return GLUE_INCOMPATIBLE_{code}_COUNT;")
        for index, each in enumerate(types):
            data = {"f8": "F8_143", "h8": "F8_152"}.get(each, each.upper())
            lines.append(
                f"    if (p->{kind}putTensors[{index}].geometry.dataType != DATA_{data}) "
                "return GLUE_INCOMPATIBLE_DATA_TYPE;"
            )
    if kernel.scalars:
        lines += [
            f"    if (p->nodeParams.nodeParamsSize < {4 * kernel.scalars}) return GLUE_MISSING_PRIVATE_STRUCTURE;",
            f"    q->kernel.paramsNr = {kernel.scalars};",
            f"    memcpy(q->kernel.scalarParams, p->nodeParams.nodeParams, {4 * kernel.scalars});",
        ]
    lines.append(f"    q->indexSpaceRank = {len(kernel.space)};")
    lines += [f"    q->indexSpaceGeometry[{index}] = {size};" for index, size in enumerate(kernel.space)]
    for _, mappings in kernel.access:
        lines += [f"    {mapping}" for mapping in mappings]
    for index in kernel.cleared:
        lines.append(f"    q->outputTensorAccessPattern[{index}].memsetBeforeExecution = true;")
    if kernel.complete:
        lines += [
            f"    q->outputTensorAccessPattern[{i}].fullyAccessedOnce = true;" for i in range(len(kernel.outputs))
        ]
    name = _symbol(kernel.source)
    lines += [f"    return program(q, &_binary_{name}_o_start, &_binary_{name}_o_end);", "  }", ""]
    return "\n".join(lines)


_GLUE = """#include <cstring>

#include "tpc_kernel_lib_interface.h"

using namespace tpc_lib_api;

{externs}

namespace {{

const char* const names[] = {{{guids}}};

[[maybe_unused]] uint64_t rounded_up(uint64_t a, uint64_t b) {{ return b ? (a + b - 1) / b : 0; }}
[[maybe_unused]] uint64_t size(const TensorGeometry& tensor, uint32_t dimension) {{
  return dimension < tensor.dims ? tensor.maxSizes[dimension] : 1;
}}
GlueCodeReturn program(HabanaKernelInstantiation* q, const unsigned char* start, const unsigned char* end) {{
  const auto bytes = static_cast<uint32_t>(end - start);
  const uint32_t room = q->kernel.elfSize;
  q->kernel.elfSize = bytes;
  if (room < bytes) return GLUE_INSUFFICIENT_ELF_BUFFER;
  memcpy(q->kernel.kernelElf, start, bytes);
  return GLUE_SUCCESS;
}}

}}  // namespace

extern "C" GlueCodeReturn GetKernelGuids(DeviceId, uint32_t* count, GuidInfo* guids) {{
  const uint32_t room = *count;
  *count = {count};
  if (guids && room >= *count)
    for (uint32_t i = 0; i < *count; i++) strncpy(guids[i].name, names[i], sizeof(guids[i].name) - 1);
  return GLUE_SUCCESS;
}}

extern "C" GlueCodeReturn InstantiateTpcKernel(HabanaKernelParams* p, HabanaKernelInstantiation* q) {{
{cases}  return GLUE_NODE_NOT_FOUND;
}}
"""
