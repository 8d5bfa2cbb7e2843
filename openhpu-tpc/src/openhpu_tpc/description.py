"""Kernels that a short TOML file describes, in the place of glue code.

[[kernel]]
guid = "my_relu_f32"
source = "relu.c"                      # or the name of a kernel of the command
inputs = ["f32"]                       # types; the number of tensors
outputs = ["f32"]
space = ["out0[0] / 64", "out0[1]"]    # sizes of the index space; `/` rounds up
scalars = 1                            # words of 32 bits of the node's parameters, for main's numbers
access = { in0 = ["64 * i0", "i1"] }   # optional: what a member reads; not used to cut the index space
"""

import ast
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from openhpu_tpc.errors import BuildError
from openhpu_tpc.types import LANES

_KEYS = {"guid", "source", "inputs", "outputs", "space", "scalars", "access"}
_MOST_DIMENSIONS = 5


class Described(NamedTuple):
    """A kernel of the file."""

    guid: str
    source: str
    inputs: list[str]
    outputs: list[str]
    space: list[str]
    scalars: int


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
    unknown = set(kernel) - _KEYS
    if unknown:
        raise BuildError(f"{path}: {sorted(unknown)[0]} is no key of a kernel; it has {', '.join(sorted(_KEYS))}")
    for key in ("guid", "source", "outputs", "space"):
        if key not in kernel:
            raise BuildError(f"{path}: a kernel needs the key {key}")
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
    return Described(kernel["guid"], kernel["source"], kernel.get("inputs", []), kernel["outputs"], space, scalars)


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
